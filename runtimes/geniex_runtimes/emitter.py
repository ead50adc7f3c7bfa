"""From tokens' bytes to text that may leave the engine: whole characters, never a stop string."""

import codecs
from collections.abc import Sequence

from geniex_runtimes.contract import TextEvent, TokenLogprob


class Emitter:
    """Collects one answer's bytes and releases text as soon as it is safe.

    Bytes that can no longer become a character are released as U+FFFD at once. Text that may be
    the beginning of a stop string is held back until that is decided.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self.stops = tuple(text for text in stop if text)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._released = 0
        # (where the token's text ends, its entry), in characters of the whole answer
        self._entries: list[tuple[int, TokenLogprob]] = []
        self.stopped = False

    def feed(self, data: bytes, entry: TokenLogprob | None = None) -> TextEvent | None:
        """Take a token's bytes; return what may leave now. Sets `stopped` at a stop string.

        Without stop strings and entries, several tokens' bytes may come at once.
        """
        text = self._decoder.decode(data)
        if entry is None and not self.stops and not self._entries:
            self._released += len(text)
            return TextEvent(text) if text else None
        self._pending += text
        if entry is not None:
            self._entries.append((self._released + len(self._pending), entry))
        cut = self._find_stop()
        if cut is not None:
            self.stopped = True
            self._entries = [e for e in self._entries if e[0] <= self._released + cut]
            return self._release(cut)
        return self._release(len(self._pending) - self._held())

    def finish(self) -> TextEvent | None:
        """What was held back, once no further token comes."""
        if self.stopped:
            return None
        self._pending += self._decoder.decode(b"", final=True)
        cut = self._find_stop()
        if cut is not None:
            self.stopped = True
            return self._release(cut)
        return self._release(len(self._pending), last=True)

    def _find_stop(self) -> int | None:
        found = [at for text in self.stops if (at := self._pending.find(text)) >= 0]
        return min(found, default=None)

    def _held(self) -> int:
        """How many trailing characters may yet become a stop string."""
        held = 0
        for text in self.stops:
            for length in range(min(len(text) - 1, len(self._pending)), held, -1):
                if self._pending.endswith(text[:length]):
                    held = length
                    break
        return held

    def _release(self, length: int, *, last: bool = False) -> TextEvent | None:
        text, self._pending = self._pending[:length], self._pending[length:]
        self._released += length
        ready = len(self._entries) if last else 0
        while ready < len(self._entries) and self._entries[ready][0] <= self._released:
            ready += 1
        entries = tuple(entry for _, entry in self._entries[:ready])
        del self._entries[:ready]
        return TextEvent(text, entries) if text or entries else None
