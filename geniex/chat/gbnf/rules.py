"""The rules of one grammar, and the small pieces that they are written with."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

MAX_RULES = 20_000
MAX_CHARACTERS = 2_000_000
MAX_REPEAT = 2000  # llama.cpp's own limit of `{m,n}`

# the name of a rule, or a class
_SYMBOL = re.compile(r"[\w-]+|\[(\\.|[^\\\]])*\]")


class Rules:
    """Named rules; equal ones are there once. Raises TooLargeError where they become too many."""

    def __init__(self) -> None:
        self._bodies: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._characters = 0

    def add(self, body: str, stem: str = "r") -> str:
        """A rule of this body; gives its name, which `stem` begins."""
        if body not in self._names:
            self._names[body] = self.reserve(stem)
            self.define(self._names[body], body)
        return self._names[body]

    def reserve(self, stem: str) -> str:
        """A name whose body comes later, so that it can refer to itself."""
        name = f"{stem}-{len(self._bodies)}"
        self._bodies[name] = ""
        self._check()
        return name

    def define(self, name: str, body: str) -> None:
        """Give a reserved name its body."""
        self._bodies[name] = body
        self._characters += len(name) + len(body)
        self._check()

    def text(self, root: str) -> str:
        """The grammar whose answers are those of the expression `root`."""
        lines = [f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self._bodies.items())]
        return "\n".join(lines) + "\n"

    def _check(self) -> None:
        if len(self._bodies) > MAX_RULES or self._characters > MAX_CHARACTERS:
            raise TooLargeError(
                f"the grammar has more than {MAX_RULES} rules or {MAX_CHARACTERS} characters"
            )


class TooLargeError(ValueError):
    """Raised for a grammar that would take too long to follow."""


def quote(text: str) -> str:
    """A literal text."""
    return f'"{"".join(_escaped(char) for char in text)}"'


def one_of(ranges: Iterable[tuple[int, int]], *, negated: bool = False) -> str:
    """A class of characters, by ranges of code points that include both ends."""
    inside = "".join(
        _code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in ranges
    )
    return f"[{'^' if negated else ''}{inside}]"


def either(alternatives: Sequence[str]) -> str:
    """One of the alternatives, in parentheses where there are several."""
    unique = list(dict.fromkeys(alternatives))
    return unique[0] if len(unique) == 1 else f"({' | '.join(unique)})"


def one_of_texts(texts: Iterable[str]) -> str:
    """One of the texts; what they begin with in common is there once, so that few ways are open."""
    unique = sorted(set(texts))
    if len(unique) == 1:
        return quote(unique[0])
    # in order: what the first and the last have in common, all of them have
    pairs = zip(unique[0], unique[-1], strict=False)
    size = next((at for at, (one, other) in enumerate(pairs) if one != other), len(unique[0]))
    prefix, rests = unique[0][:size], [text[size:] for text in unique]
    ways = [
        one_of_texts(group) if first else '""'
        for first, group in groupby(rests, key=lambda rest: rest[:1])
    ]
    return f"{quote(prefix)} {either(ways)}" if prefix else either(ways)


def repeated(rules: Rules, body: str, least: int, most: int | None) -> str:
    """A body that comes `least` to `most` times; None is no limit."""
    if most == 0:
        return ""
    if (least, most) == (1, 1):
        return body
    if not _SYMBOL.fullmatch(body):
        # llama.cpp repeats one symbol up to its limit, a group of several far less often
        body = rules.add(body, "part")
    count = f"{{{least},{'' if most is None else most}}}"
    return body + {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most), count)


def text_until(rules: Rules, mark: str) -> str:
    """Any text up to the first occurrence of `mark`, and the mark itself."""
    return _automaton(rules, mark, quote(mark[-1]))


def text_without(rules: Rules, mark: str) -> str:
    """Any text in which `mark` does not occur."""
    return _automaton(rules, mark, None)


def _automaton(rules: Rules, mark: str, last: str | None) -> str:
    """Text that ends with the mark, by `last`, or anywhere before it where that is None.

    One rule for each beginning of the mark (Knuth, Morris and Pratt, 1977).
    """
    names = [rules.reserve("until") for _ in mark]
    alphabet = sorted(set(mark))
    for state, name in enumerate(names):
        ways = [] if last else ['""']
        others = []
        for char in alphabet:
            reached = _reached(mark, mark[:state] + char)
            if reached == len(mark):
                ways += [last] if last else []
            elif reached:
                ways.append(f"{quote(char)} {names[reached]}")
            if reached:
                others.append((ord(char), ord(char)))
        ways.append(f"{one_of(others, negated=True)} {names[0]}")
        rules.define(name, " | ".join(ways))
    return names[0]


def _reached(mark: str, seen: str) -> int:
    """How long the beginning of the mark is that ends what was seen."""
    return next(size for size in range(len(seen), -1, -1) if seen.endswith(mark[:size]))


def word_but(rules: Rules, words: Iterable[str], unwritten: Sequence[tuple[int, int]]) -> str:
    """A text of characters outside the ranges `unwritten` that is none of the words."""
    trie: dict[str, object] = {}
    ends: set[str] = set()
    for word in words:
        if any(low <= ord(char) <= high for char in word for low, high in unwritten):
            continue  # it cannot be written anyway
        node = trie
        for char in word:
            node = node.setdefault(char, {})  # type: ignore[assignment]
        ends.add(word)
    return _branch(rules, trie, "", ends, unwritten)


def _branch(
    rules: Rules,
    node: dict[str, object],
    seen: str,
    ends: set[str],
    unwritten: Sequence[tuple[int, int]],
) -> str:
    any_more = f"{one_of(unwritten, negated=True)}*"
    known = [(ord(char), ord(char)) for char in node]
    ways = [f"{one_of([*unwritten, *known], negated=True)} {any_more}"]
    for char, child in node.items():
        assert isinstance(child, dict)
        ways.append(f"{quote(char)} {_branch(rules, child, seen + char, ends, unwritten)}")
    if seen not in ends:
        ways.append('""')
    return rules.add(" | ".join(ways), "word")


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else _code(ord(char))


def _code(code: int) -> str:
    """A code point as it may stand in a class."""
    if code < 128:
        char = chr(code)
        return char if char.isalnum() else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
