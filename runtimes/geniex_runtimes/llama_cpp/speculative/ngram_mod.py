"""A drafter with one table for all requests: what came after a run of tokens, whoever wrote it.

Follows llama.cpp's `ngram-mod` (`common/ngram-mod.cpp`): a hash of the last 24 tokens is the place
in a table of about four million that holds the token which came next, and following it token by
token gives a draft. Here the hash rolls (Karp and Rabin, 1987), so each token costs a
multiplication, not 24 of them. Two runs may share a place, and then the proposal is wrong: that
costs speed, never text.
"""

from array import array
from collections.abc import Sequence

from geniex_runtimes.llama_cpp.speculative.drafter import Ask
from geniex_runtimes.llama_cpp.speculative.history import History, HistoryDrafter

_SIZE = 24
# a prime, the largest below 2**22: the hash, which is a remainder of it, is the place itself
_PLACES = 4_194_301
_FACTOR = 2_654_435
_EMPTY = -1
# a table fuller than this answers with tokens of other runs too often
_MOST_USED = 0.25


class NgramTable:
    """From a run of `size` tokens to the token that came after it last."""

    def __init__(self, size: int, places: int) -> None:
        self.size = size
        self.places = places
        self.clear()
        self._oldest = pow(_FACTOR, size - 1, places)

    def hash(self, tokens: Sequence[int]) -> int:
        """The place of a run of `size` tokens."""
        place = 0
        for token in tokens:
            place = (place * _FACTOR + token) % self.places
        return place

    def roll(self, place: int, leaving: int, entering: int) -> int:
        """The place of the run one token later."""
        return ((place - leaving * self._oldest) * _FACTOR + entering) % self.places

    def learn(self, tokens: Sequence[int], first: int, place: int) -> int:
        """Enter what follows each run from position `first` on, at `place`; return the last place.

        The last run has nothing behind it yet.
        """
        following, size, places, oldest = self._next, self.size, self.places, self._oldest
        for start in range(first, len(tokens) - size):
            token = tokens[start + size]
            if following[place] == _EMPTY:
                self._used += 1
            following[place] = token
            place = ((place - tokens[start] * oldest) * _FACTOR + token) % places
        return place

    def after(self, run: Sequence[int], place: int, most: int) -> list[int]:
        """Up to `most` tokens that come after a run, which is at `place`."""
        window = list(run)
        for _ in range(most):
            token = self._next[place]
            if token == _EMPTY:
                break
            place = self.roll(place, window[-self.size], token)
            window.append(token)
        return window[self.size :]

    def make_room(self) -> None:
        """Forget everything once the table is too full."""
        if self._used > _MOST_USED * self.places:
            self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._next = array("i", [_EMPTY]) * self.places
        self._used = 0


class _LearningHistory(History):
    """A history that enters what is certain into a table; `place` is that of its last run."""

    def __init__(self, table: NgramTable) -> None:
        super().__init__()
        self._table = table
        self._learnt = 0  # runs from here on have not been entered
        self.place = 0

    def cut(self, length: int) -> None:
        last_run = max(0, length - self._table.size)
        if last_run < self._learnt:
            self._learnt = last_run
            self.place = self._table.hash(self.tokens[last_run:length])
        super().cut(length)

    def settle(self) -> None:
        size = self._table.size
        if len(self.tokens) < size:
            return
        if self._learnt == 0:
            self.place = self._table.hash(self.tokens[:size])
        self.place = self._table.learn(self.tokens, self._learnt, self.place)
        self._learnt = len(self.tokens) - size


class NgramMod(HistoryDrafter[_LearningHistory]):
    """Proposes, token by token, what came after the last `size` tokens in any request so far.

    `Ask.p_min` does not apply: there is no model, hence no confidence.
    """

    name = "ngram-mod"

    def __init__(self, *, size: int = _SIZE, places: int = _PLACES) -> None:
        """`places` is the table's size (4 bytes each), a prime."""
        super().__init__()
        self._table = NgramTable(size, places)

    def begin(self, slot: int, kept: int) -> int:
        """See `Drafter.begin`; everything may stay."""
        self._table.make_room()
        return super().begin(slot, kept)

    def _new_history(self) -> _LearningHistory:
        return _LearningHistory(self._table)

    def _propose(self, ask: Ask, history: _LearningHistory) -> list[int]:
        size = self._table.size
        if len(ask.tokens) < size:
            return []
        past = history.tokens[-size:]
        place = self._table.roll(history.place, past[0], ask.last)
        return self._table.after([*past[1:], ask.last], place, ask.n_max)
