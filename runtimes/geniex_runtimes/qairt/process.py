"""The worker of a bundle as the foreman has it: reports are waited for, chatter is no last word."""

import logging
import queue
import re

from geniex_runtimes.qairt import protocol
from geniex_runtimes.workers.process import WorkerProcess

log = logging.getLogger("geniex.qairt")

_MODULE = "geniex_runtimes.qairt.worker"
# chatter of libraries that work
_NOISE = re.compile(
    r"\[(QNN|INFO|WARN|WARNING|DEBUG|VERBOSE)\b|\[ *(INFO|WARN) *\]|LIBNATIVE|<[IWV]>"
)
# what stands before a message in libGenie's log
_STAMP = re.compile(r"^Genie: +[\d.]+ms \[ *ERROR *\] +(<E> )?")


class QairtProcess(WorkerProcess):
    """One worker. `receive` belongs to one thread, all else may be called from any."""

    def __init__(self) -> None:
        """Start it. Raises OSError."""
        self._reports: queue.SimpleQueue[protocol.Report | None] = queue.SimpleQueue()
        super().__init__(_MODULE, protocol.WIRE, self._reports.put)

    def receive(self, timeout: float) -> protocol.Report | None:
        """The next report. Raises TimeoutError; None where the worker has ended."""
        try:
            return self._reports.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def heed(self, line: str) -> str:
        """See WorkerProcess: the chatter of libraries is not told."""
        log.debug("worker %d: %s", self.pid, line)
        return "" if _NOISE.search(line) else _STAMP.sub("", line)
