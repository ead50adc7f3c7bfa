"""How fast the ways through a grammar grow with a text, found out before llama.cpp follows them.

llama.cpp goes every way at once: where a character can be read in several, and the next one too,
the ways grow with each character of a token, and one call may take hours, which nothing can stop.
So some characters are read here first, from each place of the grammar, always those that leave
most ways open. It is a probe and no proof: a grammar that hides its growth behind others is slow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from geniex_runtimes.llama_cpp.grammar_rules import Bodies, Item, Spans, Text, read

MOST_PATHS = 20_000  # for a text of `_CHARACTERS`
_CHARACTERS = 12  # twice as many ways with each character are 4096, three times too many
_MOST_STEPS = 200_000  # from one place: so many are ways, too
_ALL_STEPS = 400_000  # half a second; what is so large is not looked at to its end

_Stack: TypeAlias = tuple["_Place", "_Stack"] | None  # where to go on, innermost first
_Path: TypeAlias = tuple[Text, int, _Stack]  # a text, how far, and what is behind it


@dataclass(slots=True, eq=False)
class _Place:
    """Before an item of an alternative."""

    item: Item
    next: "_Place | None"
    again: "_Place | None" = None  # where a repeated item goes on: once more, or behind it


class _TooManyError(Exception):
    """There are more ways than are followed."""


class _Probe:
    def __init__(self, rules: dict[str, Bodies]) -> None:
        self.steps = 0
        self._steps_before = 0
        self.starts: dict[str, list[_Place | None]] = {
            name: [_places(items) for items in bodies] for name, bodies in rules.items()
        }

    def read_from(self, place: _Place) -> None:
        """Read the worst text from here. Raises _TooManyError."""
        self._steps_before = self.steps
        paths = list(self._open((place, None)))
        for taken in range(_CHARACTERS):
            if len(paths) <= 2 * taken:
                return  # if it grows later on, it does from a later place
            ahead = [(text[at], self._behind(text, at, stack)) for text, at, stack in paths]
            paths = _worst(ahead)

    def _behind(self, text: Text, at: int, stack: _Stack) -> list[_Path]:
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


def _places(items: list[Item]) -> _Place | None:
    """The first place of an alternative; None where it is empty."""
    place = None
    for item in reversed(items):
        again = None
        if item.repeated:
            again = _Place(Item(item.what, optional=True), place)
            again.again = again
        place = _Place(item, place, again)
    return place


def grows(grammar: str) -> bool:
    """Whether a short text may be read in more than `MOST_PATHS` ways.

    `grammar` is one that llama.cpp has accepted: none of its rules begins with itself.
    """
    probe = _Probe(read(grammar))
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


def _worst(ahead: list[tuple[Spans, list[_Path]]]) -> list[_Path]:
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
