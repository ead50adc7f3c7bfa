"""What a slot's context says, followed decode by decode, and the drafters that need no more."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Rows

_H = TypeVar("_H", bound="History")
_COMPARED = 32


class History(ABC):
    """The tokens of one slot.

    They arrive with every decode, draft tokens that will be rejected among them; what the next
    decode or ask does not build on is taken back. A subclass learns from them in `settle`, which is
    called when everything in `tokens` has stayed.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @abstractmethod
    def settle(self) -> None:
        """Learn what is new in `tokens`: all of it is certain now."""

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens."""
        del self.tokens[length:]

    def follow(self, start: int, tokens: Sequence[int]) -> None:
        """A decode put `tokens` at position `start`; tokens that were missed come with an `Ask`."""
        if start > len(self.tokens):
            return
        self.cut(start)
        self.settle()
        self.tokens += tokens

    def match(self, tokens: Sequence[int]) -> None:
        """Become `tokens`, the context of an `Ask`.

        The last few of the common length are compared, and only where they differ all: between two
        asks a context grows at its end, and `begin` tells of everything else.
        """
        common = min(len(self.tokens), len(tokens))
        self.cut(common)
        near = max(0, common - _COMPARED)
        if self.tokens[near:] != list(tokens[near:common]):
            pairs = zip(self.tokens, tokens, strict=False)
            self.cut(next(i for i, (mine, theirs) in enumerate(pairs) if mine != theirs))
        self.tokens += tokens[len(self.tokens) :]
        self.settle()


class IndexedHistory(History):
    """A history that knows where each run of `size` tokens was last seen, and how often.

    Every run points back to the one before that equals it, as the hash chains of LZ77 compressors
    do: taking tokens back costs as much as adding them did, and leaves nothing stale.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self._latest: dict[tuple[int, ...], int] = {}
        self._before: list[int] = []
        self._count: list[int] = []

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens, and of the index what lies within them."""
        for start in range(len(self._before) - 1, max(-1, length - self.size), -1):
            key = tuple(self.tokens[start : start + self.size])
            before = self._before.pop()
            self._count.pop()
            if before < 0:
                del self._latest[key]
            else:
                self._latest[key] = before
        super().cut(length)

    def settle(self) -> None:
        """Index the runs that have come to be complete."""
        size, tokens, latest = self.size, self.tokens, self._latest
        for start in range(len(self._before), len(tokens) - size + 1):
            key = tuple(tokens[start : start + size])
            before = latest.get(key, -1)
            self._before.append(before)
            self._count.append(1 if before < 0 else self._count[before] + 1)
            latest[key] = start

    def find(self, key: tuple[int, ...]) -> tuple[int, int]:
        """Where a run of `size` tokens was last seen (-1: never), and how many times in all."""
        start = self._latest.get(key, -1)
        return start, self._count[start] if start >= 0 else 0


class HistoryDrafter(ABC, Generic[_H]):
    """A drafter without a model: all it needs is a history per slot."""

    name: str

    def __init__(self) -> None:
        self._slots: dict[int, _H] = {}

    @abstractmethod
    def _new_history(self) -> _H: ...

    @abstractmethod
    def _propose(self, ask: Ask, history: _H) -> list[int]:
        """Up to `ask.n_max` tokens; `history` holds exactly `ask.tokens`, settled."""

    def begin(self, slot: int, kept: int) -> int:
        """See `Drafter.begin`; everything may stay."""
        self._history(slot).cut(kept)
        return kept

    def adopt(self, slot: int, tokens: Sequence[int]) -> None:
        """See `Drafter.adopt`; the next ask tells of the tokens."""
        self._history(slot).cut(0)

    def process(self, rows: Sequence[Rows]) -> None:
        """See `Drafter.process`."""
        for some in rows:
            self._history(some.slot).follow(some.start, some.tokens)

    def draft(self, asks: Sequence[Ask]) -> list[list[int]]:
        """See `Drafter.draft`."""
        proposals = []
        for ask in asks:
            history = self._history(ask.slot)
            history.match(ask.tokens)
            proposals.append(self._propose(ask, history))
        return proposals

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        """See `Drafter.accept`; the next decode or ask shows what has stayed."""

    def pause(self) -> None:
        """See `Drafter.pause`; following costs next to nothing."""

    def resume(self) -> None:
        """See `Drafter.resume`."""

    def close(self) -> None:
        """See `Drafter.close`."""
        self._slots.clear()

    def _history(self, slot: int) -> _H:
        history = self._slots.get(slot)
        if history is None:
            history = self._slots[slot] = self._new_history()
        return history
