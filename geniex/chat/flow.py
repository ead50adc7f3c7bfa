"""An answer's text on its way: reasoning parted from content, calls taken out of the content."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from geniex.chat.ledger import Ledger
from geniex.chat.reasoning import Part, ReasoningSplitter
from geniex.chat.tool_calls.reader import CallReader
from geniex.chat.tools import ToolCallPart
from geniex_runtimes.contract import Done, Generation, TextEvent


class Flow:
    """Takes the events of a generation and gives the parts of the answer.

    `reader` None: nothing counts as a call. `inline`: reasoning stays in the content as it was
    written, marks and all, but no call is read from it. `thoughts` collects the reasoning.
    """

    def __init__(
        self, splitter: ReasoningSplitter, reader: CallReader | None = None, *, inline: bool = False
    ) -> None:
        self._splitter = splitter
        self._reader = reader
        self._inline = inline
        self._ledger = Ledger()
        self._text = ""  # inline: what was written from `_told` on
        self._told = 0
        self.thoughts: list[str] = []

    def parts(self, generation: Generation) -> Iterator[Part | ToolCallPart | Done]:
        """The parts as they come, then the `Done`. Closing this closes the generation."""
        try:
            for event in generation:
                if isinstance(event, Done):
                    yield from self._finish()
                    # an answer that was stopped behind its only call is whole
                    ended = event.finish_reason == "cancelled" and self._stopped
                    yield _whole(event) if ended else event
                elif not self._stopped:
                    yield from self._feed(event)
                    if self._stopped:
                        generation.stop()
        finally:
            generation.close()

    @property
    def _stopped(self) -> bool:
        return self._reader is not None and self._reader.stopped

    def _feed(self, event: TextEvent) -> Iterator[Part | ToolCallPart]:
        self._ledger.add(event.logprobs)
        if self._inline:
            self._text += event.text
        return self._noted(self._routed(self._splitter.feed(event.text)))

    def _finish(self) -> Iterator[Part | ToolCallPart]:
        yield from self._noted(self._routed(self._splitter.finish()))
        if self._reader is not None:
            yield from self._noted(self._reader.finish())
        if self._inline and not self._stopped:
            yield from self._noted(self._as_written(self._told + len(self._text)))

    def _routed(self, parts: Iterable[Part]) -> Iterator[Part | ToolCallPart]:
        for part in parts:
            if part.kind == "reasoning":
                self.thoughts.append(part.text)
            if self._inline:
                yield from self._as_written(part.at)
                if part.kind == "reasoning":
                    yield from self._as_written(part.at + len(part.text))
                    continue
                self._pass(len(part.text))
            if part.kind == "content" and self._reader is not None:
                yield from self._reader.feed(part)
            else:
                yield part

    def _as_written(self, end: int) -> Iterator[Part | ToolCallPart]:
        """Give out as content what was written up to a place, without a look for calls."""
        size = end - self._told
        if size <= 0:
            return
        if self._reader is not None:
            yield from self._reader.finish()
        yield Part("content", self._text[:size], at=self._told)
        self._pass(size)

    def _pass(self, size: int) -> None:
        self._told += size
        self._text = self._text[size:]

    def _noted(self, parts: Iterable[Part | ToolCallPart]) -> Iterator[Part | ToolCallPart]:
        """The parts with their tokens' log probabilities."""
        for part in parts:
            if isinstance(part, Part):
                entries = self._ledger.take(part.at, part.at + len(part.text))
                yield replace(part, logprobs=entries) if entries else part
            else:
                yield part


def _whole(done: Done) -> Done:
    return Done("stop", replace(done.profile, stop_reason="stop"))
