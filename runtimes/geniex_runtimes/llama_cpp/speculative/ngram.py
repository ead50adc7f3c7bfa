"""Drafters that copy from the context itself: what followed the last time these tokens came?

The idea is prompt lookup decoding (A. Saxena, 2023); names and sizes are those of llama.cpp's
`ngram-simple` and `ngram-map-k` (`common/ngram-map.cpp`: runs of 12 tokens). Where llama.cpp scans
the context, these keep an index, so that a step costs the same however long the context is.
A proposal may run into its own beginning, so a text that repeats itself is continued for as long as
asked. There is no model, hence no confidence: `Ask.p_min` does not apply.

Where a copy breaks off, as at an edit of the text that is copied, `ngram-simple` looks for its
place again: a few tokens that stand together near where it was are enough then.
"""

from dataclasses import dataclass

from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Rows
from geniex_runtimes.llama_cpp.speculative.history import HistoryDrafter, IndexedHistory

_SIZE = 12
# tokens that tell where a broken copy goes on, tokens around the place that are looked at, and for
# how many tokens it is looked for
_RESUME = 4
_BACK, _AHEAD = 4, 24
_PATIENCE = 24


@dataclass(slots=True)
class _Copy:
    """A copy of an answer: `source` is where in the context its token at position `at` stood."""

    source: int
    at: int


class NgramSimple(HistoryDrafter[IndexedHistory]):
    """Proposes what followed the latest earlier occurrence of the last `size` tokens.

    Shortly after a copy broke off, `resume` tokens near its place do (0: never).
    """

    name = "ngram-simple"

    def __init__(self, *, size: int = _SIZE, resume: int = _RESUME) -> None:
        super().__init__()
        self._size = size
        self._resume = resume
        self._proposed: dict[int, tuple[int, list[int]]] = {}
        self._copies: dict[int, _Copy] = {}

    def begin(self, slot: int, kept: int) -> int:
        """See `Drafter.begin`; everything may stay."""
        self._proposed.pop(slot, None)
        self._copies.pop(slot, None)
        return super().begin(slot, kept)

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        """See `Drafter.accept`: where the copy stands now."""
        first, proposal = self._proposed.pop(slot, (0, []))
        tried = list(verified.tokens[1:])
        if accepted and tried == proposal[: len(tried)]:
            self._copies[slot] = _Copy(first + accepted, verified.start + 1 + accepted)

    def _new_history(self) -> IndexedHistory:
        return IndexedHistory(self._size)

    def _propose(self, ask: Ask, history: IndexedHistory) -> list[int]:
        key = self._key(ask)
        start, hits = history.find(key)
        first = start + self._size if hits else self._resumed(ask, key)
        if first < 0:
            return []
        proposal = self._copy(ask, first, ask.n_max)
        self._proposed[ask.slot] = (first, proposal)
        return proposal

    def _resumed(self, ask: Ask, key: tuple[int, ...]) -> int:
        """Where a copy that broke off goes on; -1 where that cannot be seen."""
        copy = self._copies.get(ask.slot)
        size = self._resume
        if copy is None or not size:
            return -1
        since = len(ask.tokens) + 1 - copy.at
        if not size <= since <= _PATIENCE:
            return -1
        run = list(key[-size:])
        # as many tokens on as were written since: a token in the place of another
        expected = copy.source + since
        ends = range(copy.source - _BACK + size, min(expected + _AHEAD, copy.at))
        found = [end for end in ends if end >= size and list(ask.tokens[end - size : end]) == run]
        return min(found, key=lambda end: abs(end - expected), default=-1)

    def _key(self, ask: Ask) -> tuple[int, ...]:
        """The last `size` tokens; fewer, which are found nowhere, where there are no more."""
        tokens = ask.tokens
        return (*tokens[max(0, len(tokens) - self._size + 1) :], ask.last)

    def _copy(self, ask: Ask, first: int, length: int) -> list[int]:
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
        proposal = self._copy(ask, start + self._size, min(ask.n_max, limit))
        self._asked[ask.slot] = (key, proposal)
        return proposal
