"""GBNF, llama.cpp's notation of grammars, read into flat rules.

    root  ::= "yes" | "no" | list          # a comment
    list  ::= "[" item ("," item){0,9} "]"
    item  ::= [a-z]+ | [^\\x00-\\x1f] | .

As in llama.cpp a group is a rule without a name, a name that is defined twice means its last
definition, and no rule may begin with itself or repeat without end what may be empty.
"""

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from geniex_catalogue.errors import UsageError

Ranges: TypeAlias = tuple[tuple[int, int], ...]

MAX_REPEAT = 2000  # llama.cpp's own limit of `{m,n}`
_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_NAME = re.compile(r"[A-Za-z0-9-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_COUNT = re.compile(r"\{\s*(\d{1,9})\s*(,\s*(\d{1,9})?\s*)?\}")
_NUMBERED = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_HINT = "it must be GBNF and define `root`"


@dataclass(frozen=True, slots=True)
class Item:
    """One character out of ranges, or the rule of this number; `least` to `most` times."""

    symbol: Ranges | int
    least: int = 1
    most: int | None = 1


Alternative: TypeAlias = tuple[Item, ...]
Rule: TypeAlias = list[Alternative]


@dataclass(slots=True)
class Grammar:
    """Rules by number, each the list of its alternatives; `root` is where it begins."""

    rules: list[Rule] = field(default_factory=list)
    root: int = 0

    def add(self, rule: Rule) -> int:
        """A further rule; gives its number."""
        self.rules.append(rule)
        return len(self.rules) - 1


def read(text: str) -> Grammar:
    """The grammar in a text. Raises UsageError, which says what is wrong and where."""
    if "\0" in text or not text.strip():
        raise UsageError(
            "the grammar is empty" if not text.strip() else "the grammar contains a NUL"
        )
    return _Reader(text).whole()


def fault(reason: str, hint: str = _HINT) -> UsageError:
    """The error for a grammar that cannot be followed."""
    return UsageError(f"the grammar is not accepted: {reason}", hint=hint)


@dataclass(slots=True)
class _Open:
    """A rule that is being read: its alternatives so far, and the items of the last."""

    rule: Rule = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    def close(self) -> Rule:
        self.rule.append(tuple(self.items))
        self.items = []
        return self.rule


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._grammar = Grammar()
        self._names: dict[str, int] = {}
        self._defined: set[str] = set()

    def whole(self) -> Grammar:
        self._skip(lines=True)
        while self._at < len(self._text):
            self._rule()
            self._skip(lines=True)
        if "root" not in self._defined:
            raise fault("it does not contain a `root` symbol")
        missing = next((name for name in self._names if name not in self._defined), None)
        if missing is not None:
            raise fault(f"the rule `{missing[:80]}` is not defined")
        self._grammar.root = self._names["root"]
        return self._grammar

    def _rule(self) -> None:
        name = self._name()
        if name is None:
            raise self._expected("a name")
        self._skip()
        if not self._take("::="):
            raise self._expected("`::=`")
        self._skip(lines=True)
        self._grammar.rules[self._number(name)] = self._alternatives()
        self._defined.add(name)
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._expected("a newline or the end")

    def _alternatives(self) -> Rule:
        """A rule's body; groups inside of it wait on a stack, however deep they are."""
        waiting: list[_Open] = []
        current = _Open()
        while True:
            if self._take("|"):
                current.close()
                self._skip(lines=True)
            elif self._take("("):
                self._skip(lines=True)
                waiting.append(current)
                current = _Open()
            elif waiting and self._take(")"):
                group = self._grammar.add(current.close())
                current = waiting.pop()
                current.items.append(Item(group))
                self._skip(lines=bool(waiting))
            elif self._symbol(current):
                self._skip(lines=bool(waiting))
            elif waiting:
                raise self._expected("`)`")
            else:
                return current.close()

    def _symbol(self, current: _Open) -> bool:
        """Read what stands here; False where it is none of a sequence's parts."""
        sign = self._text[self._at : self._at + 1]
        if sign == '"':
            current.items.append(self._literal())
        elif sign == "[":
            current.items.append(Item(self._class()))
        elif self._take("."):
            current.items.append(Item(((0, _SURROGATES[0] - 1), (_SURROGATES[1] + 1, _LAST))))
        elif sign and sign in "<!":
            raise fault(f"tokens by name or number are not supported, at {self._place()}")
        elif (name := self._name()) is not None:
            current.items.append(Item(self._number(name)))
        elif sign and sign in "*+?{":
            self._repeat(current)
        else:
            return False
        return True

    def _repeat(self, current: _Open) -> None:
        if not current.items:
            raise self._expected("something before a repetition")
        least, most = self._count()
        if max(least, most or 0) > MAX_REPEAT:
            raise fault(f"it repeats more than {MAX_REPEAT} times, at {self._place()}")
        if most is not None and most < least:
            raise fault(f"it repeats {least} to {most} times, at {self._place()}")
        last = current.items.pop()
        symbol = last.symbol
        if (last.least, last.most) != (1, 1):
            symbol = self._grammar.add([(last,)])
        if most != 0:
            current.items.append(Item(symbol, least, most))

    def _count(self) -> tuple[int, int | None]:
        sign = self._text[self._at]
        if sign in _SIGNS:
            self._at += 1
            return _SIGNS[sign]
        found = _COUNT.match(self._text, self._at)
        if found is None:
            raise self._expected("`{m}`, `{m,}` or `{m,n}`")
        self._at = found.end()
        least = int(found[1])
        if found[2] is None:
            return least, least
        return least, int(found[3]) if found[3] else None

    def _literal(self) -> Item:
        """A text in quotes, as one item, so that what repeats it repeats all of it."""
        self._at += 1
        codes = []
        while not self._take('"'):
            codes.append(self._char("a closing quote"))
        single = [Item(((code, code),)) for code in codes]
        return single[0] if len(single) == 1 else Item(self._grammar.add([tuple(single)]))

    def _class(self) -> Ranges:
        begin = self._place()
        self._at += 1
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            low = high = self._char("`]`")
            if self._text[self._at : self._at + 1] == "-" and self._next() != "]":
                self._at += 1
                high = self._char("`]`")
            if low > high:
                raise fault(f"a class has a range that ends before it begins, at {begin}")
            ranges.append((low, high))
        left = _characters(ranges, negated=negated)
        if not ranges or not left:
            raise fault(f"a class has no characters, at {begin}")
        return left

    def _char(self, instead: str) -> int:
        """A character's code point; `instead` is what the end of the text takes the place of."""
        char = self._text[self._at : self._at + 1]
        if not char:
            raise self._expected(instead)
        self._at += 1
        if char != "\\":
            return ord(char)
        if found := _NUMBERED.match(self._text, self._at):
            self._at = found.end()
            code = int(next(filter(None, found.groups())), 16)
            if code > _LAST:
                raise fault(f"there is no character {found[0]}, at {self._place()}")
            return code
        escape = _ESCAPES.get(self._text[self._at : self._at + 1])
        if escape is None:
            raise fault(f"unknown escape at {self._place()}")
        self._at += 1
        return ord(escape)

    def _name(self) -> str | None:
        found = _NAME.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _number(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = self._grammar.add([])
        return self._names[name]

    def _next(self) -> str:
        return self._text[self._at + 1 : self._at + 2]

    def _take(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._at)
        self._at += len(sign) if found else 0
        return found

    def _skip(self, *, lines: bool = False) -> None:
        found = (_SPACE_AND_LINES if lines else _SPACE).match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _place(self) -> str:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        return f"line {line}, column {column}"

    def _expected(self, what: str) -> UsageError:
        return fault(f"expecting {what} at {self._place()}")


def _characters(ranges: list[tuple[int, int]], *, negated: bool) -> Ranges:
    """The characters of a class, in order and without overlap; surrogates are none."""
    left: list[tuple[int, int]] = []
    if not negated:
        for low, high in sorted(ranges):
            for first, last in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high)):
                if first > last:
                    continue
                if left and first <= left[-1][1] + 1:
                    left[-1] = (left[-1][0], max(left[-1][1], last))
                else:
                    left.append((first, last))
        return tuple(left)
    at = 0
    for low, high in sorted([*ranges, _SURROGATES]):
        if low > at:
            left.append((at, low - 1))
        at = max(at, high + 1)
    if at <= _LAST:
        left.append((at, _LAST))
    return tuple(left)
