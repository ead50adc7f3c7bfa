"""An answer's text on its way: reasoning parted from content, calls taken out of the content."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from geniex.chat.ledger import Ledger
from geniex.chat.reasoning import Part, ReasoningSplitter
from geniex.chat.stops import StopStrings
from geniex.chat.tool_calls.reader import CallReader
from geniex.chat.tools import ToolCallPart
from geniex_runtimes.contract import Done, Generation, TextEvent


class Flow:
    """Takes the events of a generation and gives the parts of the answer.

    `reader` None: nothing counts as a call. `inline`: reasoning stays in the content as it was
    written, marks and all, but no call is read from it. `stop` are strings that end the answer
    where they stand in its content; reasoning, calls and the marks of both are not looked at.
    `thoughts` collects the reasoning.
    """

    def __init__(
        self,
        splitter: ReasoningSplitter,
        reader: CallReader | None = None,
        *,
        inline: bool = False,
        stop: Sequence[str] = (),
    ) -> None:
        self._splitter = splitter
        self._reader = reader
        self._inline = inline
        self._stops = StopStrings(stop)
        # whether it may end before the generation does
        self.may_stop = bool(stop) or (reader is not None and not reader.parallel)
        self._spent = 0  # tokens until it did
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
                    yield self._ended(event)
                elif not self._stopped:
                    yield from self._feed(event)
                    if self._stopped:
                        self._spent = event.tokens
                        generation.stop()
        finally:
            generation.close()

    @property
    def _stopped(self) -> bool:
        return self._stops.stopped or (self._reader is not None and self._reader.stopped)

    def _is_whole(self, done: Done) -> bool:
        """Whether the answer ended at a stop string or behind its only call, whatever came next."""
        return self._stops.stopped or (done.finish_reason == "cancelled" and self._stopped)

    def _ended(self, done: Done) -> Done:
        """The end, without what the model went on to say until it was stopped."""
        profile = done.profile
        if self._spent:
            profile = replace(profile, generated_tokens=min(self._spent, profile.generated_tokens))
        if self._is_whole(done):
            return Done("stop", replace(profile, stop_reason="stop"))
        return replace(done, profile=profile)

    def _feed(self, event: TextEvent) -> Iterator[Part | ToolCallPart]:
        self._ledger.add(event.logprobs)
        if self._inline:
            self._text += event.text
        return self._noted(self._routed(self._splitter.feed(event.text)))

    def _finish(self) -> Iterator[Part | ToolCallPart]:
        yield from self._noted(self._routed(self._splitter.finish()))
        if self._reader is not None:
            yield from self._noted(self._kept(self._reader.finish()))
        if self._inline and not self._stopped:
            yield from self._noted(self._as_written(self._told + len(self._text)))
        yield from self._noted(self._stops.release())

    def _routed(self, parts: Iterable[Part]) -> Iterator[Part | ToolCallPart]:
        for part in parts:
            if self._stopped:
                return
            if part.kind == "reasoning":
                self.thoughts.append(part.text)
            if self._inline:
                yield from self._as_written(part.at)
                if self._stopped:
                    return
                if part.kind == "reasoning":
                    yield from self._as_written(part.at + len(part.text))
                    continue
                self._pass(len(part.text))
            if part.kind == "content" and self._reader is not None:
                yield from self._kept(self._reader.feed(part))
            else:
                yield from self._kept([part])

    def _kept(self, parts: Iterable[Part | ToolCallPart]) -> Iterator[Part | ToolCallPart]:
        """The parts up to a stop string."""
        for part in parts:
            yield from self._stops.feed(part)

    def _as_written(self, end: int) -> Iterator[Part | ToolCallPart]:
        """Give out as content what was written up to a place, without a look for calls or stops."""
        size = end - self._told
        if size <= 0:
            return
        if self._reader is not None:
            yield from self._kept(self._reader.finish())
        yield from self._stops.release()
        if self._stopped:
            return
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
