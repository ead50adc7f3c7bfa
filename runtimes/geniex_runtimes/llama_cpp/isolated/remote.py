"""One worker and all that it has been asked and has not answered yet."""

import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from geniex_catalogue.errors import GenieXError, LoadError, UsageError
from geniex_runtimes.answer import Answer
from geniex_runtimes.contract import Done, GenerationRequest, TextEvent
from geniex_runtimes.errors import GenerationError, WorkerCrashedError
from geniex_runtimes.llama_cpp.isolated import failures, messages
from geniex_runtimes.llama_cpp.isolated.inbox import Inbox, News
from geniex_runtimes.llama_cpp.isolated.process import LlamaProcess
from geniex_runtimes.workers.wire import ProtocolError

log = logging.getLogger("geniex.llama_cpp")

# seconds without a word from a worker that has work (it says something every few seconds)
SILENCE = 60.0
# seconds until a generation that was cancelled has ended: a long prompt's part, on a slow machine
CANCEL_SECONDS = 120.0
_PAUSE = 5.0  # seconds between looks from which on nobody had looked, or the machine slept

_OUT_OF_MEMORY = (
    "send the request again: it gets a new worker; a system that runs out of memory ends processes "
    "like this"
)

Ask: TypeAlias = Callable[[int], messages.Order]


class Remote:
    """All methods may be called from any thread."""

    def __init__(self, name: str, on_death: Callable[["Remote"], None]) -> None:
        """Start a worker, named by its first model. Raises LoadError.

        `on_death` is called once it has ended without having been asked to.
        """
        self.name = name
        self.how = self.words = ""
        self.served = False  # whether anything that was asked of it came to a good end
        self._on_death = on_death
        self._numbers = itertools.count(1)
        self._open: dict[int, Inbox] = {}
        self._lock = threading.Lock()
        self._dead = self._closing = False
        self._buried = threading.Event()
        self._heard = self._looked = time.monotonic()
        try:
            self._process = LlamaProcess(self._deliver)
        except OSError as exc:
            raise LoadError(f"the worker of `{name}` does not start: {exc}") from exc

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._dead and self._process.alive

    def await_burial(self) -> None:
        """Of one that is not alive: wait until its end is known to all whom it concerns."""
        self._buried.wait(SILENCE)

    def open(self, ask: Ask) -> tuple[int, Inbox]:
        """Order something under a new number. Raises WorkerCrashedError, UsageError."""
        number, inbox = next(self._numbers), Inbox(self._look)
        with self._lock:
            if self._dead:
                raise self.crash()
            self._open[number] = inbox
        try:
            self._process.order(ask(number))
        except ProtocolError as exc:
            self.forget(number)
            raise UsageError(f"the request is too large for a worker: {exc}") from exc
        return number, inbox

    def call(self, ask: Ask) -> News:
        """Order something that has one report, and wait for it. Raises what it says."""
        number, inbox = self.open(ask)
        try:
            return inbox.wait()
        finally:
            self.forget(number)

    def generate(self, model: int, request: GenerationRequest, late: float = 0.0) -> Answer:
        """Start a generation. Raises what the engine says at once, and WorkerCrashedError.

        `late` are the seconds that it had to wait before this.
        """
        number, inbox = self.open(lambda number: messages.Generate(number, model, request))
        inbox.late = late
        try:
            inbox.wait()
        except GenieXError:
            raise
        except BaseException:
            self._cancel(number, inbox)  # Ctrl-C while it was about to begin
            raise
        return Answer(inbox, lambda: self._cancel(number, inbox))

    def free(self, model: int, *, kept: bool) -> None:
        """Free a model, its loan of the weights too unless that is `kept`. Raises as `call`."""
        number, inbox = self.open(lambda number: messages.Free(number, model, kept))
        inbox.cancelled = time.monotonic()  # the same patience: it ends what runs
        try:
            inbox.wait()
        finally:
            self.forget(number)

    def tell(self, order: messages.Order) -> None:
        """Order something that has no report."""
        self._process.order(order)

    def forget(self, number: int) -> None:
        """Nobody waits for its reports any more."""
        with self._lock:
            self._open.pop(number, None)

    def close(self) -> None:
        """Let it end in order."""
        self._closing = True
        self._process.close(messages.Close())

    def kill(self) -> None:
        """End it at once; that is no crash."""
        self._closing = True
        self._process.kill()

    def crash(self) -> WorkerCrashedError:
        """What is told of its end."""
        hint = _OUT_OF_MEMORY if self.how.endswith("SIGKILL") else None
        return WorkerCrashedError(self.name, self.how or "has ended", self.words, hint=hint)

    def _cancel(self, number: int, inbox: Inbox) -> None:
        """Without a lock: the collector may call it in any thread, also one that has it."""
        if number in self._open and not inbox.cancelled:
            inbox.cancelled = time.monotonic()
            self._process.order(messages.Cancel(number))

    def _look(self) -> None:
        """Called by whoever waits: a worker that is not heard for too long is ended."""
        now = time.monotonic()
        since, self._looked = now - self._looked, now
        if since > _PAUSE:
            self._heard = now
        elif now - self._heard > SILENCE:
            self._lose_patience(f"said nothing for {SILENCE:.0f} s and was ended")
        with self._lock:
            cancels = [inbox.cancelled for inbox in self._open.values() if inbox.cancelled]
        if cancels and now - min(cancels) > CANCEL_SECONDS:
            self._lose_patience(
                f"did not end an answer within {CANCEL_SECONDS:.0f} s and was ended"
            )

    def _lose_patience(self, how: str) -> None:
        with self._lock:
            if self._dead or self.how:
                return
            self.how = how
        log.warning("worker %d %s", self.pid, how)
        self._process.kill()

    def _deliver(self, report: messages.Report | None) -> None:
        """Called by the thread that reads the worker's reports."""
        if report is None:
            self._died()
            return
        self._heard = time.monotonic()
        if isinstance(report, messages.Beat):
            return
        inbox = self._open.get(report.number)
        if inbox is None:
            return
        if isinstance(report, messages.Piece):
            inbox.put(TextEvent(report.text, report.logprobs, report.tokens))
        elif isinstance(report, messages.Finished):
            self.forget(report.number)
            self.served = True
            profile = report.profile
            if inbox.late:
                profile = replace(profile, ttft=profile.ttft + inbox.late)
            inbox.put(Done(report.finish_reason, profile))
        elif isinstance(report, messages.Failed):
            self.forget(report.number)
            inbox.put(failures.error_of(report))
        else:
            self.served |= isinstance(report, messages.Vectors)
            inbox.put(report)

    def _died(self) -> None:
        """Its reports have ended: bury it, and tell all who wait."""
        how = self._process.death()
        words = self._process.why()
        self._process.kill()
        with self._lock:
            self._dead = True
            self.how, self.words = self.how or how, words
            waiting, self._open = list(self._open.values()), {}
        if not self._closing:
            log.warning("worker %d %s%s", self.pid, self.how, f" ({words})" if words else "")
            self._on_death(self)
        for inbox in waiting:
            if self._closing:
                inbox.put(GenerationError(f"`{self.name}` has been closed", hint="load it again"))
            else:
                inbox.put(self.crash())
        self._buried.set()
