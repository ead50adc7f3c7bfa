"""How fast the ways through a grammar grow with a text, found out before llama.cpp follows them.

llama.cpp goes every way at once: where a character can be read in several, and the next one too,
the ways grow with each character of a token, and one call may take hours, which nothing can stop.
So some characters are read here first, from each place of the grammar, always those that leave
most ways open. It is a probe and no proof: a grammar that hides its growth behind others is slow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

MOST_PATHS = 20_000  # for a text of `_CHARACTERS`
_CHARACTERS = 12  # twice as many ways with each character are 4096, three times too many
_MOST_STEPS = 200_000  # from one place: so many are ways, too
_ALL_STEPS = 400_000  # half a second; what is so large is not looked at to its end

_TOKENS = re.compile(
    r'"(?:[^"\\]|\\.)*"?|\[(?:[^\]\\]|\\.)*\]?|#[^\r\n]*|!?<[^>\s]*>|::=|[A-Za-z0-9_-]+|\{[^}]*\}'
    r"|[()|.*+?]",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPE = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|.", re.DOTALL)
_PLAIN = {"n": 10, "r": 13, "t": 9}
_TOP = 0x110000  # behind the last character

_Spans: TypeAlias = tuple[tuple[int, int], ...]  # characters, ends not among them
_What: TypeAlias = str | tuple[_Spans, ...]  # the name of a rule, or a text
_Bodies: TypeAlias = list[list["_Item"]]
_Stack: TypeAlias = tuple["_Place", "_Stack"] | None  # where to go on, innermost first
_Path: TypeAlias = tuple[tuple[_Spans, ...], int, _Stack]  # a text, how far, and what is behind it


@dataclass(slots=True)
class _Item:
    what: _What
    optional: bool = False
    repeated: bool = False


@dataclass(slots=True, eq=False)
class _Place:
    """Before an item of an alternative."""

    item: _Item
    next: "_Place | None"
    again: "_Place | None" = None  # where a repeated item goes on: once more, or behind it


class _TooManyError(Exception):
    """There are more ways than are followed."""


class _Probe:
    def __init__(self, rules: dict[str, _Bodies]) -> None:
        self.steps = 0
        self._steps_before = 0
        self.starts: dict[str, list[_Place | None]] = {
            name: [_places(items) for items in bodies] for name, bodies in rules.items()
        }

    def read_from(self, place: _Place) -> None:
        """Read the worst text from here. Raises _TooManyError."""
        self._steps_before = self.steps
        paths = list(self._open((place, None)))
        for read in range(_CHARACTERS):
            if len(paths) <= 2 * read:
                return  # if it grows later on, it does from a later place
            ahead = [(text[at], self._behind(text, at, stack)) for text, at, stack in paths]
            paths = _worst(ahead)

    def _behind(self, text: tuple[_Spans, ...], at: int, stack: _Stack) -> list[_Path]:
        return [(text, at + 1, stack)] if at + 1 < len(text) else list(self._open(stack))

    def _open(self, stack: _Stack) -> Iterator[_Path]:
        """The texts that may come next; llama.cpp has found no rule that begins with itself."""
        waiting = [stack]
        while waiting:
            stack = waiting.pop()
            if stack is None:
                continue
            self.steps += 1
            if self.steps - self._steps_before > _MOST_STEPS:
                raise _TooManyError
            place, outer = stack
            behind = (place.next, outer) if place.next is not None else outer
            if place.item.optional:
                waiting.append(behind)
            if place.again is not None:
                behind = (place.again, outer)
            if isinstance(place.item.what, str):
                for start in self.starts.get(place.item.what, ()):
                    waiting.append(behind if start is None else (start, behind))
            else:
                yield place.item.what, 0, behind


def _places(items: list[_Item]) -> _Place | None:
    """The first place of an alternative; None where it is empty."""
    place = None
    for item in reversed(items):
        again = None
        if item.repeated:
            again = _Place(_Item(item.what, optional=True), place)
            again.again = again
        place = _Place(item, place, again)
    return place


def grows(grammar: str) -> bool:
    """Whether a short text may be read in more than `MOST_PATHS` ways.

    `grammar` is one that llama.cpp has accepted: none of its rules begins with itself.
    """
    probe = _Probe(_read(grammar))
    try:
        for starts in probe.starts.values():
            for start in starts:
                place = start
                while place is not None and probe.steps < _ALL_STEPS:
                    probe.read_from(place)
                    place = place.next
    except _TooManyError:
        return True
    return False


def _worst(ahead: list[tuple[_Spans, list[_Path]]]) -> list[_Path]:
    """The ways that are open behind the character that leaves most of them."""
    changes: dict[int, int] = {}
    for spans, paths in ahead:
        for begin, end in spans:
            changes[begin] = changes.get(begin, 0) + len(paths)
            changes[end] = changes.get(end, 0) - len(paths)
    total, most, best = 0, 0, -1
    for character, change in sorted(changes.items()):
        total += change
        if total > most:
            most, best = total, character
    if most > MOST_PATHS:
        raise _TooManyError
    return [
        path
        for spans, paths in ahead
        if any(begin <= best < end for begin, end in spans)
        for path in paths
    ]


def _read(grammar: str) -> dict[str, _Bodies]:
    """The alternatives of each rule and group."""
    tokens = [found[0] for found in _TOKENS.finditer(grammar) if found[0][0] != "#"]
    rules: dict[str, _Bodies] = {}
    outer: list[_Bodies] = []
    body: _Bodies = [[]]
    for index, token in enumerate(tokens):
        if token == "::=":
            continue
        if tokens[index + 1 : index + 2] == ["::="]:
            outer, body = [], [[]]
            rules[token] = body
        elif token == "(":
            outer.append(body)
            body[-1].append(_Item(f"({index}"))
            body = rules[f"({index}"] = [[]]
        elif token == ")":
            body = outer.pop() if outer else body
        elif token == "|":
            body.append([])
        elif token in "*+?" or token[0] == "{":
            if body[-1]:
                body[-1][-1].optional, body[-1][-1].repeated = _times(token)
        elif _NAME.fullmatch(token):
            body[-1].append(_Item(token))
        elif text := _text(token):
            body[-1].append(_Item(text))
    return rules


def _times(token: str) -> tuple[bool, bool]:
    """Whether an item may be left out, and whether it may come several times."""
    if token[0] != "{":
        return token in "*?", token in "*+"
    numbers = [int(number) for number in re.findall(r"\d+", token)]
    return numbers[:1] == [0], "," in token and numbers[-1:] != [1]


def _text(token: str) -> tuple[_Spans, ...]:
    """The characters that a token of a grammar stands for, one after the other."""
    if token == ".":
        return (((0, _TOP),),)
    if token[0] in "<!":
        return (((0, _TOP),),)  # a token of the model may be any text
    if token[0] == '"':
        return tuple(((code, code + 1),) for code in _codes(token[1:].removesuffix('"')))
    return (_class(token[1:].removesuffix("]")),)


def _class(inside: str) -> _Spans:
    codes = list(_codes(inside.removeprefix("^")))
    spans, at = [], 0
    while at < len(codes):
        is_range = codes[at + 1 : at + 2] == [ord("-")] and at + 2 < len(codes)
        last = codes[at + 2] if is_range else codes[at]
        spans.append((codes[at], max(codes[at], last) + 1))
        at += 3 if is_range else 1
    if not inside.startswith("^"):
        return tuple(spans)
    others, begin = [], 0
    for first, end in sorted(spans):
        if first > begin:
            others.append((begin, first))
        begin = max(begin, end)
    return (*others, (begin, _TOP))


def _codes(text: str) -> Iterator[int]:
    for found in _ESCAPE.finditer(text):
        one = found[0]
        if one[0] != "\\" or len(one) == 1:
            yield ord(one)
        elif one[1] in "xuU" and len(one) > 2:
            yield min(int(one[2:], 16), _TOP - 1)
        else:
            yield _PLAIN.get(one[1], ord(one[1]))
