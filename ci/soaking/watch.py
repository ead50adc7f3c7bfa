"""What a server's process holds when it rests: memory, open files, threads, children."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

MOST_GROWTH = 0.05  # of the resident memory, after the warm-up
_TREND = 10  # samples: fewer do not tell growth from noise
_LOOKS, _PAUSE = 6, 0.3  # seconds
_SPARE = 2  # files and threads that may be on their way


@dataclass(frozen=True)
class Sample:
    """What a process held at one moment: bytes, and counts."""

    memory: int
    files: int
    threads: int
    children: int

    def __str__(self) -> str:
        """One line."""
        size = f"{self.memory / 2**20:.1f} MiB"
        return f"{size}, {self.files} files, {self.threads} threads, {self.children} children"


def sample(process: int) -> Sample:
    """Look at a process, by its id."""
    import psutil

    it = psutil.Process(process)
    with it.oneshot():
        # the same thing by its name on Windows
        files = getattr(it, "num_handles" if psutil.WINDOWS else "num_fds")()
        return Sample(
            it.memory_info().rss, files, it.num_threads(), len(it.children(recursive=True))
        )


def at_rest(process: int) -> Sample:
    """The least of a few looks at a process: what was given up just now goes within a moment."""
    looks = []
    for _ in range(_LOOKS):
        looks.append(sample(process))
        time.sleep(_PAUSE)
    return min(looks, key=lambda one: (one.children, one.threads, one.files, one.memory))


def growth(samples: Sequence[int]) -> float:
    """How much larger the last fifth of the samples is than the first one, as a share."""
    part = max(1, len(samples) // 5)
    return statistics.median(samples[-part:]) / statistics.median(samples[:part]) - 1


def leaks(samples: Sequence[Sample]) -> list[str]:
    """What grew over samples that were taken at rest, after a warm-up."""
    found = []
    grown = growth([one.memory for one in samples])
    if len(samples) >= _TREND and grown > MOST_GROWTH:
        found.append(f"memory grew by {grown:.1%}")
    for what in ("files", "threads", "children"):
        counts = [int(getattr(one, what)) for one in samples]
        part = max(1, len(counts) // 5)
        # the least of the end: a thread that ends just now is no leak
        if min(counts[-part:]) > max(counts[:part]) + _SPARE:
            found.append(f"{what} grew from {counts[0]} to {counts[-1]}")
    return found
