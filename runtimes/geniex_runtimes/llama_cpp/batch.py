"""A reusable llama_batch over NumPy arrays: filled by slices, never allocated per turn."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from geniex_runtimes.llama_cpp.library import Library

# up to so many rows it is faster to set items one by one than to assign slices
_FEW = 8


class Batch:
    """Rows of (token, position, sequence, wants logits), at most `capacity` of them.

    With `width` every row also has a hidden state of so many floats, as MTP heads want it.
    """

    def __init__(self, library: Library, capacity: int, width: int = 0) -> None:
        api = library.api
        self._move = library.move
        self.capacity = capacity
        self.rows = 0
        self._token = np.zeros(capacity, np.int32)
        self._position = np.zeros(capacity, np.int32)
        self._sequence = np.zeros(capacity, np.int32)
        self._logits = np.zeros(capacity, np.int8)
        self._count = np.ones(capacity, np.int32)
        self.hidden = np.zeros((capacity, width), np.float32)
        self._hidden_address = self.hidden.ctypes.data
        self._state_bytes = 4 * width
        # single items are set faster through these than through the arrays
        self._token_at = self._token.data
        self._position_at = self._position.data
        self._sequence_at = self._sequence.data
        self._logits_at = self._logits.data
        steps = np.arange(capacity, dtype=np.uint64) * np.uint64(4)
        self._sequence_pointers = np.uint64(self._sequence.ctypes.data) + steps

        def pointer(array: npt.NDArray[Any], kind: Any) -> object:
            return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))

        self.native = api.llama_batch(
            0,
            pointer(self._token, api.llama_token),
            pointer(self.hidden, ctypes.c_float) if width else None,
            pointer(self._position, api.llama_pos),
            pointer(self._count, ctypes.c_int32),
            pointer(self._sequence_pointers, ctypes.POINTER(api.llama_seq_id)),
            pointer(self._logits, ctypes.c_int8),
        )

    @property
    def room(self) -> int:
        """Rows that still fit."""
        return self.capacity - self.rows

    def clear(self) -> None:
        """Forget all rows."""
        self.rows = 0

    def add(self, sequence: int, start: int, tokens: Sequence[int], *, all_logits: bool) -> int:
        """Append `tokens` of one sequence at positions from `start` on; return the first row.

        With `all_logits` every row gives logits, else none does.
        """
        first, end = self.rows, self.rows + len(tokens)
        if len(tokens) <= _FEW:
            for row, token in enumerate(tokens, first):
                self._token_at[row] = token
                self._position_at[row] = start + row - first
                self._sequence_at[row] = sequence
                self._logits_at[row] = all_logits
        else:
            self._token[first:end] = tokens
            self._position[first:end] = np.arange(start, start + len(tokens), dtype=np.int32)
            self._sequence[first:end] = sequence
            self._logits[first:end] = all_logits
        self.rows = end
        return first

    def add_draft(self, sequence: int, position: int, token: int, state: int) -> int:
        """Append one token that gives logits, its hidden state copied from an address.

        Returns its row. The same as `add` of one token, in less time: every draft needs several.
        """
        row = self.rows
        self._token_at[row] = token
        self._position_at[row] = position
        self._sequence_at[row] = sequence
        self._logits_at[row] = 1
        if self._state_bytes:
            place = self._hidden_address + row * self._state_bytes
            self._move(place, state, self._state_bytes)
        self.rows = row + 1
        return row

    def want_logits(self, row: int, wanted: bool = True) -> None:
        """Ask for logits of one row, or for none."""
        self._logits_at[row] = wanted

    def set_states(self, first: int, address: int, count: int) -> None:
        """Copy the hidden states of `count` rows from an address."""
        if self._state_bytes:
            place = self._hidden_address + first * self._state_bytes
            self._move(place, address, count * self._state_bytes)

    def finish(self) -> object:
        """The native struct with the row count set, ready for one decode."""
        self.native.n_tokens = self.rows
        return self.native
