"""Regular expressions of JSON schemas, as expressions over the characters of a string.

Understood: characters, `.`, classes, `\\d \\w \\s` and their opposites, `\\n \\t \\r`, `\\xHH`,
`\\uHHHH`, groups, `|`, the quantifiers `* + ? {m,n}`, and `^` and `$` at the ends. Without `^` or
`$` anything may come before or after, as JSON schema wants it. Refused: assertions, back
references, flags, and repeating what may be empty. What is written is always matched; where
engines differ (`\\w` and letters beyond ASCII), it is what all of them match.
"""

import re
from dataclasses import dataclass

from geniex.chat.gbnf.notation import Notation, Ranges, complement
from geniex.chat.gbnf.rules import MAX_REPEAT, Rules, either, repeated

_ASCII_END = 0x7F
_SETS: dict[str, Ranges] = {
    "d": [(48, 57)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "s": [(9, 10), (13, 13), (32, 32)],
}
_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12}
_NUMBERED = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_COUNT = re.compile(r"\{([0-9]{1,4000})(,([0-9]{0,4000}))?\}")  # as many digits as Python reads
_GROUP = re.compile(r"\?(:|<[A-Za-z_]\w*>)")
_DEPTH = 50


class PatternError(ValueError):
    """Raised for a regular expression outside the subset; the text says why."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """An expression, and whether it may be empty."""

    text: str
    empty: bool


def pattern(source: str, notation: Notation, rules: Rules) -> str:
    """The inside of a string that matches. Raises PatternError."""
    parser = _Parser(source, notation, rules)
    return parser.whole()


class _Parser:
    def __init__(self, source: str, notation: Notation, rules: Rules) -> None:
        self._source = source
        self._notation = notation
        self._rules = rules
        self._at = 0

    def whole(self) -> str:
        """All of the pattern, with whatever may stand around what it matches."""
        ways = []
        around = f"{self._notation.character(self._rules)}*"
        while True:
            before = "" if self._take("^") else around
            middle = self._sequence(0)
            after = "" if self._take("$") else around
            ways.append(" ".join(filter(None, (before, middle.text, after))))
            if not self._take("|"):
                break
        if self._at < len(self._source):
            raise PatternError(f"`{self._source[self._at]}` at {self._at} has no meaning here")
        return either(ways)

    def _alternatives(self, depth: int) -> _Piece:
        if depth > _DEPTH:
            raise PatternError("it is nested too deeply")
        ways = [self._sequence(depth)]
        while self._take("|"):
            ways.append(self._sequence(depth))
        return _Piece(either([way.text for way in ways]), any(way.empty for way in ways))

    def _sequence(self, depth: int) -> _Piece:
        pieces: list[_Piece] = []
        while (char := self._peek()) and char not in "|)$":
            pieces.append(self._quantified(self._atom(depth)))
        text = " ".join(piece.text for piece in pieces if piece.text)
        return _Piece(text or '""', all(piece.empty for piece in pieces))

    def _quantified(self, piece: _Piece) -> _Piece:
        least, most = self._count()
        if (least, most) == (1, 1):
            return piece
        self._take("?")  # lazy: the same texts match
        if self._peek() in ("*", "+", "?", "{") and self._count() != (1, 1):
            raise PatternError("a quantifier follows a quantifier")
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise PatternError(f"it repeats {least} to {most} times")
        if piece.empty and most != 1:
            raise PatternError("it repeats what may be empty")
        return _Piece(repeated(self._rules, piece.text, least, most) or '""', least == 0)

    def _count(self) -> tuple[int, int | None]:
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return count
        found = _COUNT.match(self._source, self._at)
        if found is None:
            return 1, 1
        self._at = found.end()
        least = int(found[1])
        if found[2] is None:
            return least, least
        return least, int(found[3]) if found[3] else None

    def _atom(self, depth: int) -> _Piece:
        if self._take("("):
            return self._group(depth)
        if self._take("["):
            return self._one(self._class())
        if self._take("."):
            return self._one(complement([]))
        char = self._peek()
        if char in "^*+?" or _COUNT.match(self._source, self._at):
            raise PatternError(f"`{char}` at {self._at} has no meaning here")
        self._at += 1
        if char == "\\":
            ranges, _ = self._escape()
            return self._one(ranges)
        return self._one([(ord(char), ord(char))])

    def _group(self, depth: int) -> _Piece:
        if self._peek() == "?":
            found = _GROUP.match(self._source, self._at)
            if found is None:
                raise PatternError(f"`(?{self._source[self._at + 1 : self._at + 3]}` is not known")
            self._at = found.end()
        inside = self._alternatives(depth + 1)
        if self._peek() == "$":
            raise PatternError("`$` stands inside a group")
        if not self._take(")"):
            raise PatternError("a group is not closed")
        return _Piece(self._rules.add(inside.text, "group"), inside.empty)

    def _escape(self) -> tuple[Ranges, bool]:
        """What an escape stands for, and whether that is a set with a name."""
        char = self._peek()
        self._at += 1
        if char.lower() in _SETS and char:
            named = _SETS[char.lower()]
            return (named if char.islower() else _within_ascii(complement(named))), True
        self._at -= 1
        if found := _NUMBERED.match(self._source, self._at):
            self._at = found.end()
            code = int(found[1] or found[2], 16)
            return [(code, code)], False
        if not char or (char.isalnum() and char not in _CONTROLS):
            raise PatternError(f"`\\{char}` is not known")
        self._at += 1
        code = _CONTROLS.get(char, ord(char))
        return [(code, code)], False

    def _class(self) -> Ranges:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        named = False
        while not self._take("]"):
            low, is_set = self._member()
            named = named or is_set
            if not is_set and self._peek() == "-" and self._source[self._at + 1 :][:1] != "]":
                self._at += 1
                high, is_set = self._member()
                if is_set or high[0][0] < low[0][0]:
                    raise PatternError("a class has a range that ends before it begins")
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges += low
        if not negated:
            return ranges
        rest = complement(ranges)
        return _within_ascii(rest) if named else rest

    def _member(self) -> tuple[Ranges, bool]:
        char = self._peek()
        if not char:
            raise PatternError("a class is not closed")
        self._at += 1
        return self._escape() if char == "\\" else ([(ord(char), ord(char))], False)

    def _one(self, ranges: Ranges) -> _Piece:
        text = self._notation.characters(ranges)
        if text is None:
            raise PatternError("it wants a character that cannot be written")
        return _Piece(text, False)

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self, char: str) -> bool:
        found = self._peek() == char
        self._at += found
        return found


def _within_ascii(ranges: Ranges) -> Ranges:
    return [(low, min(high, _ASCII_END)) for low, high in ranges if low <= _ASCII_END]
