"""Gives what was freed back to the system, where the C library keeps it for itself.

Each model is made on a thread of its own, and glibc keeps what a thread has freed for that thread's
next use: after some models come and gone, a process of 150 MB took 800.
"""

import ctypes
import functools
import sys
from collections.abc import Callable


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
