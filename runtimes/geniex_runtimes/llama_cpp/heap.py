"""Gives what was freed back to the system, where the C library keeps it for itself.

Each model is made on a thread of its own, and glibc keeps what a thread has freed for that thread's
next use: after some models come and gone, a process of 150 MB took 800. Answers have threads, too,
and each may get a heap of its own: a server of 107 MB took 170 after some thousand of them.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable

_ARENA_MAX = -8  # glibc's M_ARENA_MAX
_ARENAS = 2
_MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD
LARGE = 1 << 20  # bytes


def share() -> None:
    """Have the threads of this process share a few heaps; MALLOC_ARENA_MAX wins.

    Does nothing where there are more than eight heaps: glibc has settled on a number by then.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        _set(_ARENA_MAX, _ARENAS)


def set_apart() -> None:
    """From now on what is LARGE gets an area of its own, also once such memory has been freed.

    glibc else takes what is up to 32 MB from its heap after a while, where nothing tells it apart.
    """
    _set(_MMAP_THRESHOLD, LARGE)


def _set(option: int, value: int) -> None:
    change = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if change is not None:  # musl has none
        change(option, value)


@functools.cache
def _trimmer() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none, and keeps little
    if trim is None:
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim  # type: ignore[no-any-return]


def trim() -> None:
    """To be called after a model has been freed: takes some milliseconds."""
    trimmer = _trimmer()
    if trimmer is not None:
        trimmer(0)
