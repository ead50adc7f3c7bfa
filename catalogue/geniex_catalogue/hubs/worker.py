"""A worker thread that can be left alone: Ctrl-C returns at once, whatever the network does."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from geniex_catalogue.hubs.contract import Progress

T = TypeVar("T")

# The longest wait between two looks at Ctrl-C; Windows cannot interrupt a wait.
_SLICE = 0.1


class AbandonedError(Exception):
    """Raised inside a worker whose caller has left; no user meets it."""


class Abandon:
    """The caller's word to its workers: after `now()`, nothing in `unless_left()` runs any more."""

    def __init__(self) -> None:
        self._left = threading.Event()
        self._changed = threading.Condition()
        self._busy = 0
        self._last_words: list[Callable[[], None]] = []

    @property
    def is_left(self) -> bool:
        """Whether the caller has left."""
        return self._left.is_set()

    def at_leaving(self, last_words: Callable[[], None]) -> None:
        """Have the caller call this once its workers write no more; it has to be quick."""
        with self._changed:
            self._last_words.append(last_words)

    def now(self) -> None:
        """Leave the workers alone; waits half a second at most for writes that are under way."""
        self._left.set()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, timeout=0.5)
            last_words, self._last_words = self._last_words, []
        for call in last_words:
            call()

    @contextmanager
    def unless_left(self) -> Iterator[None]:
        """Guard what a worker must not do once it is alone. Raises AbandonedError."""
        with self._changed:
            if self._left.is_set():
                raise AbandonedError
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                if not self._busy:
                    self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Sleep. Raises AbandonedError as soon as the caller has left."""
        if self._left.wait(seconds):
            raise AbandonedError


class Messenger(Protocol):
    """Carries a worker's words over to the caller's thread."""

    def deliver(self) -> None:
        """Say what has gathered, here and now."""
        ...


class Relay:
    """A `Progress` that carries a worker's calls over to the caller's thread, or to nobody."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._calls: queue.SimpleQueue[Callable[[Progress], None]] = queue.SimpleQueue()

    def _put(self, call: Callable[[Progress], None]) -> None:
        if self._progress is not None:
            self._calls.put(call)

    def start(self, file: str, total: int | None, present: int) -> None:
        """See `Progress`."""
        self._put(lambda to: to.start(file, total, present))

    def advance(self, file: str, count: int) -> None:
        """See `Progress`."""
        self._put(lambda to: to.advance(file, count))

    def retry(self, file: str, reason: str, wait: float) -> None:
        """See `Progress`."""
        self._put(lambda to: to.retry(file, reason, wait))

    def finish(self, file: str) -> None:
        """See `Progress`."""
        self._put(lambda to: to.finish(file))

    def deliver(self) -> None:
        """Make the calls that have gathered, here and now."""
        while self._progress is not None:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                return
            call(self._progress)


class _Outcome(Generic[T]):
    """What a worker ended with."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.value: list[T] = []
        self.error: BaseException | None = None

    def run(self, work: Callable[[Abandon], T], abandon: Abandon) -> None:
        try:
            self.value.append(work(abandon))
        except BaseException as exc:
            self.error = exc
        self.ended.set()


def interruptible(work: Callable[[Abandon], T], relay: Messenger | None = None) -> T:
    """Run `work` in a daemon thread and give its result, delivering its words meanwhile.

    KeyboardInterrupt, or an error of the progress, abandons the worker and is raised at once.
    """
    abandon, outcome = Abandon(), _Outcome[T]()
    thread = threading.Thread(
        target=outcome.run, args=(work, abandon), name="geniex-hub", daemon=True
    )
    try:
        thread.start()
        while not outcome.ended.wait(_SLICE):
            if relay is not None:
                relay.deliver()
    except BaseException:
        abandon.now()
        raise
    if relay is not None:
        relay.deliver()
    if outcome.error is not None:
        raise outcome.error
    return outcome.value[0]
