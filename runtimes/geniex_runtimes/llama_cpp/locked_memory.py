"""Memory that the system may not swap out, beside what llama.cpp locks by itself.

llama.cpp locks mapped files and its plain buffers, and leaves out those of repacked weights.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

_STATUS = Path("/proc/self/status")


def locked() -> int:
    """Bytes of this process that are locked; 0 where the system does not tell."""
    try:
        lines = _STATUS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmLck:")), 0)


def lock(areas: Iterable[tuple[int, int]]) -> str | None:
    """Lock areas, given as (start, end); why that failed. Nothing but on Linux."""
    if sys.platform != "linux":
        return None
    call = _mlock()
    for start, end in areas:
        if call(start, end - start) != 0:
            return os.strerror(ctypes.get_errno())
    return None


@functools.cache
def _mlock() -> Callable[[int, int], int]:
    call = ctypes.CDLL(None, use_errno=True).mlock
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    call.restype = ctypes.c_int
    return call
