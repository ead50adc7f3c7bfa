"""Huge pages for weights: a decode walks through all of them, and small pages are looked up often.

Linux gives them to memory that a process owns, not to the pages of a mapped file (on ext4 and most
others), and by its usual setting (`madvise`) only where they are asked for.
"""

import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from geniex_runtimes.options import LoadOptions

_ADVICE = 14  # MADV_HUGEPAGE
# bytes: smaller areas hold no weights worth it
_LEAST = 8 << 20
_MAPS = Path("/proc/self/maps")
_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class FreshMemory:
    """Finds the areas that this process has got since this was made. Nothing but on Linux."""

    def __init__(self) -> None:
        self._before = frozenset(_areas())

    def areas(self, least: int) -> list[tuple[int, int]]:
        """The new areas of at least so many bytes, as (start, end)."""
        fresh = [area for area in _areas() if area not in self._before]
        return [(start, end) for start, end in fresh if end - start >= least]

    def ask(self) -> int:
        """Ask for huge pages in the new areas, best before they are written to; bytes asked for."""
        if not available():
            return 0
        advise = _advice()
        fresh = self.areas(_LEAST)
        return sum(end - start for start, end in fresh if advise(start, end - start, _ADVICE) == 0)


def mapped(options: LoadOptions, *, room: bool = True) -> bool:
    """Whether to map the weights: where it is left open, unless a CPU gets huge pages for them.

    `room`: there is memory for weights that are not mapped.
    """
    if options.mmap is None:
        return options.compute != "cpu" or not room or not available()
    return options.mmap


@functools.cache
def available() -> bool:
    """Whether the system gives huge pages to who asks for them."""
    if sys.platform != "linux":
        return False
    try:
        return "[never]" not in _ENABLED.read_text(encoding="ascii")
    except OSError:
        return False


@functools.cache
def _advice() -> Callable[[int, int, int], int]:
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    advise.restype = ctypes.c_int
    return advise


def _areas() -> Iterator[tuple[int, int]]:
    """The private areas without a file that can be written to, as (start, end)."""
    if sys.platform != "linux":
        return
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        span, rights, _, _, inode, *name = line.split(maxsplit=5)
        start, end = (int(text, 16) for text in span.split("-"))
        if rights == "rw-p" and inode == "0" and not name:
            yield start, end
