"""Everything that a context holds of one sequence, as bytes, and back."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.library import Library

State = npt.NDArray[np.uint8]


def size(library: Library, context: Context, sequence: int) -> int:
    """How many bytes the state has now; 0 where llama.cpp cannot save it."""
    api = library.api
    flags = api.LLAMA_STATE_SEQ_FLAGS_NONE
    return int(api.llama_state_seq_get_size_ext(context.handle, sequence, flags))


def save(library: Library, context: Context, sequence: int) -> State | None:
    """The cells of a sequence and its recurrent state; None where llama.cpp cannot save them."""
    length = size(library, context, sequence)
    if not length:
        return None
    # not zeroed: that would touch every page once more
    state = np.empty(length, np.uint8)
    api = library.api
    flags = api.LLAMA_STATE_SEQ_FLAGS_NONE
    written = api.llama_state_seq_get_data_ext(
        context.handle, _pointer(state), length, sequence, flags
    )
    return state if written == length else None


def restore(library: Library, context: Context, sequence: int, state: State) -> bool:
    """Put a state in the place of what a sequence held; when that fails it holds nothing."""
    api = library.api
    context.keep(sequence, 0)
    flags = api.LLAMA_STATE_SEQ_FLAGS_NONE
    read = api.llama_state_seq_set_data_ext(
        context.handle, _pointer(state), len(state), sequence, flags
    )
    if read == len(state):
        return True
    context.keep(sequence, 0)
    return False


def _pointer(state: State) -> Any:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
