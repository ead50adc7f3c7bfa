"""A user's stop strings: they end the content of an answer, and look at nothing else of it."""

from collections.abc import Iterable
from dataclasses import replace

from geniex.chat.reasoning import Part
from geniex.chat.tools import ToolCallPart


class StopStrings:
    """Takes an answer's parts in order and gives them back up to the first stop string.

    Content that may yet become a stop string is held back; one ends where anything but content
    comes between. Of several the one counts that is whole first, however the text was cut.
    `stopped` is set behind it: nothing more is given back.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        self.stopped = False
        self._stops = tuple(text for text in stops if text)
        self._held: list[Part] = []

    def feed(self, part: Part | ToolCallPart) -> list[Part | ToolCallPart]:
        """Take a part; give what is decided."""
        if self.stopped:
            return []
        if not isinstance(part, Part) or part.kind != "content":
            return [*self.release(), part]
        if not self._stops:
            return [part]
        self._held.append(part)
        text = "".join(held.text for held in self._held)
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            _, at = min(found)
            given, _ = _cut(self._held, at)
        else:
            given, self._held = _cut(self._held, len(text) - self._begun(text))
        return [*given]

    def release(self) -> list[Part]:
        """What was held back, where no more content comes, or something else comes between."""
        given, self._held = ([] if self.stopped else self._held), []
        return given

    def _begun(self, text: str) -> int:
        """How many characters at the end may yet become a stop string."""
        longest = max(map(len, self._stops)) - 1
        sizes = range(min(longest, len(text)), 0, -1)
        begins = (size for size in sizes if any(s.startswith(text[-size:]) for s in self._stops))
        return next(begins, 0)


def _cut(parts: list[Part], at: int) -> tuple[list[Part], list[Part]]:
    """Parts of one text, before and behind a place in it."""
    before: list[Part] = []
    for index, part in enumerate(parts):
        if at < len(part.text):
            begun = [replace(part, text=part.text[:at])] if at > 0 else []
            rest = replace(part, text=part.text[at:], at=part.at + at)
            return before + begun, [rest, *parts[index + 1 :]]
        before.append(part)
        at -= len(part.text)
    return before, []
