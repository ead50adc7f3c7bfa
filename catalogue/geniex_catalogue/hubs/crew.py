"""The workers of a transfer: several files, and several spans of a large one, at the same time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from geniex_catalogue.errors import GenieXError
from geniex_catalogue.hubs.download import Download, Task
from geniex_catalogue.hubs.job import Fetch, Fetched
from geniex_catalogue.hubs.line import Line
from geniex_catalogue.hubs.worker import AbandonedError

# the longest wait between two looks for something to do
_LOOK = 0.05
# how long an error waits for the other workers to let go of their files
_FAREWELL = 0.5


class Crew:
    """Threads that take what there is to do, the first files first."""

    def __init__(self, line: Line, jobs: Sequence[Fetch]) -> None:
        self._line = line
        self._downloads = [Download(line, job) for job in jobs]
        self._count = min(line.width, sum(_most(job, line.span) for job in jobs))
        self._lock = threading.Lock()
        self._here = self._count
        self._busy = 0
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._all_out = threading.Event()

    def run(self) -> tuple[Fetched, ...]:
        """Bring all files home. Raises what the first that fails for good raises."""
        for number in range(self._count):
            name = f"geniex-hub-{number + 1}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        if self._count:
            self._ended.wait()
        else:
            self._line.http.close()
        if self._error is not None:
            self._all_out.wait(_FAREWELL)
            raise self._error
        return tuple(it.fetched for it in self._downloads if it.fetched is not None)

    def _work(self) -> None:
        try:
            while (found := self._next()) is not None:
                download, task = found
                try:
                    task()
                except GenieXError as exc:
                    if not self._may_go(download, exc):
                        raise
                    return
                finally:
                    with self._lock:
                        self._busy -= 1
        except BaseException as exc:
            self._fail(exc)
        finally:
            self._leave()

    def _next(self) -> tuple[Download, Task] | None:
        while True:
            with self._line.changed:
                if self._ended.is_set() or all(it.fetched for it in self._downloads):
                    return None
                free = self._busy < self._line.width
                for download in self._downloads if free else ():
                    task = download.claim()
                    if task is not None:
                        with self._lock:
                            self._busy += 1
                        return download, task
                self._line.changed.wait(_LOOK)
            with self._line.abandon.unless_left():
                continue

    def _may_go(self, download: Download, error: GenieXError) -> bool:
        """Whether a worker whose connections fail leaves the rest to the others."""
        with self._lock:
            return self._busy > 1 and download.is_first_failure(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None and not self._ended.is_set():
                self._error = error
        if not isinstance(error, AbandonedError):
            self._line.abandon.now()
        self._ended.set()
        self._line.tell()

    def _leave(self) -> None:
        with self._lock:
            self._here -= 1
            last = not self._here
        if last:
            for download in self._downloads:
                download.close()
            self._line.http.close()
            self._all_out.set()
            self._ended.set()


def _most(job: Fetch, span: int) -> int:
    """How many workers a file can employ; many for one of unknown size."""
    return 1024 if job.size is None else max(1, -(-job.size // span))
