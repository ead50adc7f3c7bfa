"""Keys and values of the tokens evaluated so far, in the form that the graphs take."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from geniex_runtimes.qairt.layout import CacheFacts

Array = npt.NDArray[Any]


class KvCache:
    """One array for each layer's keys, and one for its values: `filled` of `room` tokens.

    Graphs take arrays of exactly their own room, so a step of another variant copies them once.
    """

    def __init__(self, caches: Sequence[CacheFacts]) -> None:
        self._caches = caches
        self._arrays: dict[str, Array] = {}
        self.filled = 0
        self.room = 0
        self.clear()

    def clear(self) -> None:
        """Forget all tokens."""
        self.filled = self.room = 0
        self._arrays = {one.name: np.empty(one.shape, one.encoding.dtype) for one in self._caches}

    def fit(self, room: int) -> None:
        """Make room for exactly so many tokens, which are not fewer than there are."""
        if room == self.room:
            return
        for one in self._caches:
            shape = (*one.shape[: one.axis], room, *one.shape[one.axis + 1 :])
            wide = np.full(shape, one.encoding.zero, one.encoding.dtype)
            wide[_at(one, 0, self.filled)] = self._arrays[one.name][_at(one, 0, self.filled)]
            self._arrays[one.name] = wide
        self.room = room

    def taken(self) -> dict[str, Array]:
        """The graphs' inputs."""
        return {one.taken: self._arrays[one.name] for one in self._caches}

    def add(self, given: Mapping[str, Array], count: int) -> None:
        """Keep the first `count` tokens of the graphs' outputs; there has to be room."""
        for one in self._caches:
            place = _at(one, self.filled, self.filled + count)
            self._arrays[one.name][place] = given[one.given][_at(one, 0, count)]
        self.filled += count

    def cut(self, count: int) -> None:
        """Forget all but the first `count` tokens."""
        # what lies behind them is masked, and overwritten in time
        self.filled = min(count, self.filled)

    def drop(self, start: int, count: int) -> None:
        """Forget `count` tokens from `start`; those behind them move up."""
        for one in self._caches:
            array = self._arrays[one.name]
            array[_at(one, start, self.filled - count)] = array[
                _at(one, start + count, self.filled)
            ].copy()
        self.filled -= count

    def arrays(self) -> dict[str, Array]:
        """What is kept of each layer, by the cache's name."""
        return {one.name: self._arrays[one.name][_at(one, 0, self.filled)] for one in self._caches}

    def load(self, arrays: Mapping[str, Array], count: int) -> None:
        """Take what `arrays` gave. Raises ValueError for arrays of another bundle."""
        for one in self._caches:
            array = arrays.get(one.name)
            shape = (*one.shape[: one.axis], count, *one.shape[one.axis + 1 :])
            if array is None or array.shape != shape or array.dtype != one.encoding.dtype:
                raise ValueError(f"`{one.name}` is not what this bundle keeps")
        self._arrays = {one.name: np.array(arrays[one.name]) for one in self._caches}
        self.filled = self.room = count


def _at(cache: CacheFacts, start: int, end: int) -> tuple[slice, ...]:
    """The place of tokens in a cache's array."""
    return (slice(None),) * cache.axis + (slice(start, end),)
