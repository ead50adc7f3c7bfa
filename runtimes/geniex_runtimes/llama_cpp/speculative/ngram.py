"""Drafters that copy from the context itself: what followed the last time these tokens came?

The idea is prompt lookup decoding (A. Saxena, 2023); names and sizes are those of llama.cpp's
`ngram-simple` and `ngram-map-k` (`common/ngram-map.cpp`: runs of 12 tokens). Where llama.cpp scans
the context, these keep an index, so that a step costs the same however long the context is.
A proposal may run into its own beginning, so a text that repeats itself is continued for as long as
asked. There is no model, hence no confidence: `Ask.p_min` does not apply.
"""

from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Rows
from geniex_runtimes.llama_cpp.speculative.history import HistoryDrafter, IndexedHistory

_SIZE = 12


class NgramSimple(HistoryDrafter[IndexedHistory]):
    """Proposes what followed the latest earlier occurrence of the last `size` tokens."""

    name = "ngram-simple"

    def __init__(self, *, size: int = _SIZE) -> None:
        super().__init__()
        self._size = size

    def _new_history(self) -> IndexedHistory:
        return IndexedHistory(self._size)

    def _propose(self, ask: Ask, history: IndexedHistory) -> list[int]:
        key = self._key(ask)
        start, hits = history.find(key)
        return self._copy(ask, start, ask.n_max) if hits else []

    def _key(self, ask: Ask) -> tuple[int, ...]:
        """The last `size` tokens; fewer, which are found nowhere, where there are no more."""
        tokens = ask.tokens
        return (*tokens[max(0, len(tokens) - self._size + 1) :], ask.last)

    def _copy(self, ask: Ask, start: int, length: int) -> list[int]:
        first = start + self._size
        proposal = list(ask.tokens[first : first + length])
        if len(proposal) < length:
            proposal.append(ask.last)
        period = len(proposal)
        while len(proposal) < length:
            proposal.append(proposal[-period])
        return proposal


class NgramMapK(NgramSimple):
    """As `NgramSimple`, for runs seen at least `min_hits` times before, and with a memory.

    Where a proposal behind a run of tokens was rejected, the next one behind that same run in this
    answer is at most one token longer than what was accepted.
    """

    name = "ngram-map-k"

    def __init__(self, *, size: int = _SIZE, min_hits: int = 1) -> None:
        super().__init__(size=size)
        self._min_hits = min_hits
        self._limits: dict[int, dict[tuple[int, ...], int]] = {}
        self._asked: dict[int, tuple[tuple[int, ...], list[int]]] = {}

    def begin(self, slot: int, kept: int) -> int:
        """See `Drafter.begin`; everything may stay."""
        self._limits[slot] = {}
        self._asked.pop(slot, None)
        return super().begin(slot, kept)

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        """See `Drafter.accept`; another drafter's proposal teaches nothing."""
        key, proposal = self._asked.pop(slot, ((), []))
        tried = list(verified.tokens[1:])
        if tried and tried == proposal[: len(tried)]:
            limits = self._limits.setdefault(slot, {})
            if accepted < len(tried):
                limits[key] = accepted + 1
            elif key in limits:
                limits[key] = max(limits[key], accepted + 1)

    def close(self) -> None:
        """See `Drafter.close`."""
        super().close()
        self._limits.clear()
        self._asked.clear()

    def _propose(self, ask: Ask, history: IndexedHistory) -> list[int]:
        key = self._key(ask)
        start, hits = history.find(key)
        if hits < self._min_hits:
            return []
        limit = self._limits.get(ask.slot, {}).get(key, ask.n_max)
        proposal = self._copy(ask, start, min(ask.n_max, limit))
        self._asked[ask.slot] = (key, proposal)
        return proposal
