"""The two ways in which models write values: JSON, and the form that Gemma 4 gives to arguments."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from geniex.chat.gbnf.rules import Rules, either, one_of, quote, word_but

Ranges: TypeAlias = Sequence[tuple[int, int]]

LAST = 0x10FFFF
_CONTROLS = ((0, 0x1F), (0x7F, 0x7F))
_LETTERS = ((48, 57), (65, 90), (95, 95), (97, 122))
_SURROGATES = (0xD800, 0xDFFF)
_SPACE = '" "?'  # more than that only costs tokens
_HEX = "[0-9a-fA-F]"
# whole characters by number: a surrogate only with its other half
_BY_NUMBER = (
    rf'"\\u" ([0-9a-cA-CefEF] {_HEX}{{3}} | [dD] [0-7] {_HEX}{{2}}'
    rf' | [dD] [89abAB] {_HEX}{{2}} "\\u" [dD] [c-fC-F] {_HEX}{{2}})'
)
_SHORT_ESCAPES = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}


class Notation(Protocol):
    """How values are written. Expressions may refer to rules that are added on the way."""

    mark: str  # what stands at both ends of a string
    unwritten: Ranges  # what a string cannot hold as it is, and so no key does

    def space(self, rules: Rules) -> str:
        """What may stand between the parts; an expression that may be empty."""
        ...

    def character(self, rules: Rules) -> str:
        """Any one character of a string."""
        ...

    def characters(self, ranges: Ranges) -> str | None:
        """One character out of these ranges; None where there is none to be written."""
        ...

    def key(self, name: str) -> str:
        """The text of a member's name."""
        ...

    def other_key(self, rules: Rules, names: Iterable[str]) -> str:
        """Any member's name that is none of these."""
        ...

    def value(self, value: object) -> str:
        """The text of a value."""
        ...


class _Json(Notation):
    mark = '"'
    unwritten = (*_CONTROLS, (34, 34), (92, 92))

    def space(self, rules: Rules) -> str:
        return rules.add(_SPACE, "space")

    def character(self, rules: Rules) -> str:
        escapes = r'"\\" ["\\/bfnrt]'
        plain = one_of(self.unwritten, negated=True)
        return rules.add(f"{plain} | {escapes} | {_BY_NUMBER}", "char")

    def characters(self, ranges: Ranges) -> str | None:
        plain = without(ranges, self.unwritten)
        escaped = [
            quote("\\" + letter)
            for code, letter in _SHORT_ESCAPES.items()
            if any(low <= code <= high for low, high in ranges)
        ]
        ways = [one_of(plain)] if plain else []
        return either([*ways, *escaped]) if ways or escaped else None

    def key(self, name: str) -> str:
        return json.dumps(name, ensure_ascii=False)

    def other_key(self, rules: Rules, names: Iterable[str]) -> str:
        # without escapes, so that one name has one spelling
        return f"{quote(self.mark)} {word_but(rules, names, self.unwritten)} {quote(self.mark)}"

    def value(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)


class _Gemma(Notation):
    mark = '<|"|>'
    unwritten = ((0, 8), (11, 31), (0x3C, 0x3C), (0x7F, 0x7F))

    def space(self, rules: Rules) -> str:
        return '""'

    def character(self, rules: Rules) -> str:
        return rules.add(one_of(self.unwritten, negated=True), "char")

    def characters(self, ranges: Ranges) -> str | None:
        plain = without(ranges, self.unwritten)
        return one_of(plain) if plain else None

    def key(self, name: str) -> str:
        return name

    def other_key(self, rules: Rules, names: Iterable[str]) -> str:
        return word_but(rules, ["", *names], without([(0, LAST)], _LETTERS))

    def value(self, value: object) -> str:
        if isinstance(value, str):
            return f"{self.mark}{value}{self.mark}"
        if isinstance(value, Mapping):
            return f"{{{','.join(f'{key}:{self.value(item)}' for key, item in value.items())}}}"
        if isinstance(value, list | tuple):
            return f"[{','.join(map(self.value, value))}]"
        return json.dumps(value, allow_nan=False)


JSON: Notation = _Json()
GEMMA: Notation = _Gemma()


def without(ranges: Ranges, taken: Ranges) -> list[tuple[int, int]]:
    """The ranges less those taken and less surrogates, in order and without overlap."""
    left: list[tuple[int, int]] = []
    holes = sorted([*taken, _SURROGATES])
    for low, high in sorted(ranges):
        low = max(low, left[-1][1] + 1) if left else low
        for first, last in holes:
            if first > high or low > high:
                break
            if last < low:
                continue
            if first > low:
                left.append((low, first - 1))
            low = last + 1
        if low <= high:
            left.append((low, high))
    return left


def complement(ranges: Ranges) -> list[tuple[int, int]]:
    """Every character outside the ranges that is not a control character."""
    return without([(0, LAST)], [*ranges, *_CONTROLS])
