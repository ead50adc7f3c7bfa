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


def share() -> None:
    """Have the threads of this process share a few heaps; MALLOC_ARENA_MAX wins.

    Does nothing where there are more than eight heaps: glibc has settled on a number by then.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if limit is not None and "MALLOC_ARENA_MAX" not in os.environ:
        limit(_ARENA_MAX, _ARENAS)


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
