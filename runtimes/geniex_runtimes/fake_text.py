"""The scripted runtime's text on its way out: whole characters, and never a stop string."""

import codecs
from collections.abc import Sequence

from geniex_runtimes.contract import TextEvent, TokenLogprob


class FakeText:
    """Holds back what may be the beginning of a stop string, or half a character."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(s for s in stop if s)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._logprobs: list[TokenLogprob] = []
        self.stopped = False

    def add(self, data: bytes, logprob: TokenLogprob | None) -> TextEvent | None:
        """Take one token's bytes; return what may leave. Sets `stopped` at a stop string."""
        self._held += self._decoder.decode(data)
        if logprob is not None:
            self._logprobs.append(logprob)
        ends = [at for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            self._held = self._held[: min(ends)]
            return self.rest()
        keep = max(
            (n for s in self._stop for n in range(1, len(s)) if self._held.endswith(s[:n])),
            default=0,
        )
        return self._give(len(self._held) - keep)

    def rest(self) -> TextEvent | None:
        """What was held back."""
        if not self.stopped:
            self._held += self._decoder.decode(b"", final=True)
        return self._give(len(self._held))

    def _give(self, length: int) -> TextEvent | None:
        text, self._held = self._held[:length], self._held[length:]
        if not text:
            return None
        logprobs, self._logprobs = tuple(self._logprobs), []
        return TextEvent(text, logprobs)
