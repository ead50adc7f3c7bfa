"""How many CPU threads a decode uses: as many as there are cores that nobody else keeps busy.

llama.cpp's threads wait for each other many times per token. One that has to share its core holds
up all others: with two threads beside one busy core a decode was 30 times slower than with one.
"""

import time
from collections.abc import Callable

from geniex_runtimes.hardware.cpu import SAMPLE, Watch, free_cores

INTERVAL = 0.5  # seconds between two looks at the machine


class Glance:
    """A look at the machine that begins now, and goes on while a model is loaded."""

    def __init__(
        self, watch: Watch | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._watch = watch or Watch()
        self._sleep = sleep
        self._began = time.monotonic()

    def free_cores(self) -> int:
        """Fast cores that nobody else kept busy meanwhile; waits where that was too short."""
        left = SAMPLE - (time.monotonic() - self._began)
        if left > 0:
            self._sleep(left)
        return self._watch.free_cores()


class Governor:
    """Keeps `threads` at the number of free fast cores, looking again while decoding goes on."""

    def __init__(
        self,
        *,
        start: Callable[[], int] = free_cores,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.threads = start()
        self._watch = watch or Watch()
        self._clock = clock
        self._looked = clock()

    def look(self) -> bool:
        """Whether `threads` has changed; looks at the machine at most every INTERVAL seconds."""
        now = self._clock()
        since = now - self._looked
        if since < INTERVAL:
            return False
        self._looked = now
        free = self._watch.free_cores()
        # a pause without decoding says nothing about the moment that just was
        if since > 4 * INTERVAL or free == self.threads:
            return False
        self.threads = free
        return True
