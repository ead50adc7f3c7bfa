"""Keeps one worker for one bundle: starts it, gives it one request at a time, replaces it."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from geniex_catalogue.errors import GenieXError, LoadError, UsageError
from geniex_runtimes.contract import Done, Event, Profile, TextEvent
from geniex_runtimes.errors import GenerationError, WorkerCrashedError
from geniex_runtimes.options import QairtEngine
from geniex_runtimes.qairt import protocol
from geniex_runtimes.qairt.bundle_paths import DAMAGED
from geniex_runtimes.qairt.engine import EngineMissingError
from geniex_runtimes.qairt.process import QairtProcess

log = logging.getLogger("geniex.qairt")

_LOOK = 0.2  # seconds between looks for a load that is given up, or a cancel that is not heard
_LOAD_SECONDS = 60.0
_LOAD_SPEED = 20_000_000  # bytes per second, of a slow disk
_CANCEL_SECONDS = 60.0  # a long prompt's end, on a slow device
_CLOSE_SECONDS = 10.0  # the same where nobody needs the worker any more


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker loads. `size` is bytes of the bundle's files."""

    name: str
    folder: Path
    engine: QairtEngine
    size: int
    sliding_window: bool = False

    @property
    def patience(self) -> float:
        """Seconds that a load may take."""
        return _LOAD_SECONDS + self.size / _LOAD_SPEED


@dataclass(slots=True, eq=False)
class Task:
    """One generation on its way; `events` is read by the caller."""

    order: protocol.Generate
    events: queue.SimpleQueue[Event | Exception] = field(default_factory=queue.SimpleQueue)
    submitted: float = field(default_factory=time.monotonic)
    cancelled: float = 0.0
    begun: bool = False
    finished: bool = False

    def end(self, event: Event | Exception) -> None:
        """The last event; a second one is dropped."""
        if not self.finished:
            self.finished = True
            self.events.put(event)

    def give_up(self) -> None:
        """End it as cancelled, before anything of its answer has come."""
        tokens = len(self.order.tokens)
        self.end(Done("cancelled", Profile(prompt_tokens=tokens, stop_reason="user")))


class Foreman:
    """All methods may be called from any thread; the worker belongs to the foreman's own."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tasks: queue.SimpleQueue[Task | Callable[[], None] | None] = queue.SimpleQueue()
        # again and again: the collector may cancel an answer that is thrown away in any thread
        self._lock = threading.RLock()
        self._current: Task | None = None
        self._open: set[Task] = set()
        self._worker: QairtProcess | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="qairt-foreman", daemon=True)

    @property
    def worker_pid(self) -> int | None:
        """The process id of the worker; None where there is none that lives."""
        worker = self._worker
        return worker.pid if worker is not None and worker.alive else None

    def start(self, progress: Callable[[float], bool] | None = None) -> protocol.Loaded:
        """Start the first worker and load. Raises LoadError, EngineMissingError, UsageError."""
        loaded = self._load(progress)
        self._thread.start()
        return loaded

    def submit(self, task: Task) -> None:
        """Have a request done after those before it. Raises GenerationError when closed."""
        with self._lock:
            if self._closed:
                raise GenerationError(f"`{self._job.name}` has been closed", hint="load it again")
            self._open.add(task)
            self._tasks.put(task)

    def cancel(self, task: Task) -> None:
        """End a request within a token, or at once where nothing of its answer has come."""
        with self._lock:
            if task.finished or task.cancelled:
                return
            task.cancelled = time.monotonic()
            if task is self._current and self._worker is not None:
                self._worker.send(protocol.Cancel(task.order.number))
            if not task.begun:  # an engine may be long about the prompt: only the next has to wait
                task.give_up()

    def do(self, order: protocol.Order) -> None:
        """Have a Reset, Save or Restore done between requests. Raises GenerationError."""
        answer: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

        def work() -> None:
            try:
                self._ask(order)
            except GenieXError as exc:
                answer.put(exc)
            else:
                answer.put(None)

        with self._lock:
            if self._closed:
                raise GenerationError(f"`{self._job.name}` has been closed", hint="load it again")
            self._tasks.put(work)
        if (error := answer.get()) is not None:
            raise error

    def close(self) -> None:
        """End all requests and the worker; a second call does nothing."""
        with self._lock:
            first, self._closed = not self._closed, True
            waiting = list(self._open)
        if not first:
            return
        for task in waiting:
            self.cancel(task)
        if self._thread.is_alive():
            self._tasks.put(None)
            self._thread.join()
        self._dismiss()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if isinstance(task, Task):
                self._do(task)
            else:
                task()

    def _do(self, task: Task) -> None:
        with self._lock:
            self._current = task
        try:
            if not task.finished:
                self._answer(task)
        except Exception as exc:
            task.end(exc)
        finally:
            with self._lock:
                self._current = None
                self._open.discard(task)

    def _answer(self, task: Task) -> None:
        worker = self._employ()
        if task.finished:  # while it was loaded
            return
        waited = time.monotonic() - task.submitted
        worker.send(task.order)
        if task.cancelled:  # before there was a worker to hear it
            worker.send(protocol.Cancel(task.order.number))
        over = False
        while not over and self._worker is worker:
            report = self._heard(worker, task)
            if isinstance(report, protocol.Piece):
                task.begun = True
                task.events.put(TextEvent(report.text, report.logprobs, report.tokens))
            elif isinstance(report, protocol.Finished):
                profile = replace(report.profile, ttft=report.profile.ttft + waited)
                task.end(Done(report.finish_reason, profile))
                over = True
            elif isinstance(report, protocol.Failed):
                task.end(_error(report))
                over = True

    def _heard(self, worker: QairtProcess, task: Task | None) -> protocol.Report | None:
        """The next report, None for none yet. Raises WorkerCrashedError."""
        try:
            report = worker.receive(_LOOK)
        except TimeoutError:
            if task is not None and task.cancelled:
                self._lose_patience(worker, task)
            return None
        if report is None:
            raise self._crashed(worker)
        return report

    def _lose_patience(self, worker: QairtProcess, task: Task) -> None:
        """End a worker that has not heard for too long that its answer is not wanted."""
        patience = _CLOSE_SECONDS if self._closed else _CANCEL_SECONDS
        if time.monotonic() - task.cancelled > patience:
            log.warning("worker %d hears nothing and is killed", worker.pid)
            self._worker = None
            worker.kill()
            task.give_up()

    def _ask(self, order: protocol.Order) -> None:
        worker = self._employ()
        worker.send(order)
        while True:
            report = self._heard(worker, None)
            if isinstance(report, protocol.Failed):
                raise _error(report)
            if report is not None:
                return

    def _employ(self) -> QairtProcess:
        """The worker, a new one where the last one died. Raises LoadError."""
        if self._worker is not None and self._worker.alive:
            return self._worker
        if self._worker is not None:  # nobody waited for it: nobody has to be told
            self._bury(self._worker)
        log.info("starting a new worker for %s", self._job.name)
        try:
            self._load(None)
        except EngineMissingError as exc:
            raise LoadError(f"`{self._job.name}` does not load any more: {exc}") from exc
        if self._worker is None:
            raise LoadError(f"`{self._job.name}` has no worker")
        return self._worker

    def _load(self, progress: Callable[[float], bool] | None) -> protocol.Loaded:
        try:
            worker = QairtProcess()
        except OSError as exc:
            raise LoadError(f"the worker of `{self._job.name}` does not start: {exc}") from exc
        try:
            job = self._job
            worker.send(protocol.Load(job.folder, job.engine, job.sliding_window))
            loaded = self._loaded(worker, progress)
        except BaseException:
            worker.kill()
            raise
        self._worker = worker
        return loaded

    def _loaded(
        self, worker: QairtProcess, progress: Callable[[float], bool] | None
    ) -> protocol.Loaded:
        name, patience = self._job.name, self._job.patience
        started = time.monotonic()
        while True:
            passed = time.monotonic() - started
            if progress is not None and not progress(min(0.9, passed / patience)):
                raise LoadError(f"loading `{name}` was given up")
            if passed > patience:
                raise LoadError(f"`{name}` did not load within {patience:.0f} s")
            try:
                report = worker.receive(min(_LOOK, patience - passed))
            except TimeoutError:
                continue
            if isinstance(report, protocol.Loaded):
                if progress is not None:
                    progress(1.0)
                return report
            if report is not None and not isinstance(report, protocol.Failed):
                continue
            raise self._refused(worker, report)

    def _refused(
        self, worker: QairtProcess, failed: protocol.Failed | None
    ) -> LoadError | EngineMissingError:
        """The error for a load that the worker refused, or did not survive."""
        hint = failed.hint if failed is not None else None
        if failed is None:
            reason = f"the worker {worker.death()} while it loaded"
            hint = f"the context binaries in `{self._job.folder}` may be damaged: {DAMAGED}"
        elif failed.kind == "missing":
            return EngineMissingError(failed.message)
        else:
            reason = failed.message
            worker.kill()
        worker.settle()
        words = worker.last_words()
        return LoadError(
            f"`{self._job.name}` does not load: {reason}" + (f" ({words})" if words else ""),
            hint=hint,
        )

    def _crashed(self, worker: QairtProcess) -> WorkerCrashedError:
        how = self._bury(worker)
        return WorkerCrashedError(self._job.name, how, worker.last_words())

    def _bury(self, worker: QairtProcess) -> str:
        """Leave nothing of a dead worker behind; how it died."""
        self._worker = None
        how = worker.death()
        worker.kill()
        log.warning("worker %d %s", worker.pid, how)
        return how

    def _dismiss(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close(protocol.Close())


def _error(failed: protocol.Failed) -> GenieXError:
    if failed.kind == "usage":
        return UsageError(failed.message, hint=failed.hint)
    return GenerationError(failed.message, hint=failed.hint)
