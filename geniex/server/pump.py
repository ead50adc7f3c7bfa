"""From a blocking generation on a thread to the event loop, and back with the news of a cancel.

A `Work` is a generator function that runs on a thread of its own: it takes a lease, answers, and
gives its events; its `with` blocks end on that thread, however it ends. The event loop gets what
is ready in one hop, as a list.
"""

import asyncio
import contextvars
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import closing
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request

from geniex.server.observed import observed
from geniex.server.pool import ModelWish, Pool, Unset
from geniex.session import OpenModel

T = TypeVar("T")
R = TypeVar("R")


class Closes(Protocol):
    """What can be cancelled from another thread, such as `AnswerEvents`."""

    def close(self) -> None:
        """Cancel what is still running."""
        ...


class Job:
    """What a work on its thread knows of its client; `gone` is set when nobody waits any more."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self._lock = threading.Lock()
        self._running: Closes | None = None

    def closes(self, events: Closes) -> None:
        """Have `events` closed when the client goes; at once, where it has gone."""
        with self._lock:
            self._running = events
        if self.gone.is_set():
            events.close()

    def cancel(self) -> None:
        """Tell that nobody waits any more, and close what runs. From any thread, never blocks."""
        self.gone.set()
        with self._lock:
            running = self._running
        if running is not None:
            running.close()


Work: TypeAlias = Callable[[Job], Generator[T, None, None]]


def leased(
    pool: Pool,
    wish: ModelWish,
    keep_alive: float | Unset | None,
    use: Callable[[Job, OpenModel], Iterator[T]],
) -> Work[T]:
    """The work of using a model of the pool; `keep_alive` as `Lease.close` takes it.

    It waits for its turn and gives that up when the client goes. Raises what `Pool.acquire` and
    `use` raise.
    """

    def work(job: Job) -> Generator[T, None, None]:
        since = time.time_ns()
        lease = pool.acquire(wish, job.gone)
        observed().got_model(lease.name, since)
        try:
            yield from use(job, lease.model)
        finally:
            lease.close(keep_alive)

    return work


class _Board:
    """Calls for the event loop from many threads, which cost it one wake while they come together.

    Answers that share a step have their tokens at one time, and a wake is a system call on both
    sides.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)  # it is what a board is found by, and outlives its feeds
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called on the loop; from any thread."""
        with self._lock:
            self._calls.append(function)
            first = len(self._calls) == 1
        loop = self._loop()
        if first and loop is not None:  # else the loop has been told and has not looked yet
            try:
                loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                return  # the loop is closed: nobody listens

    def _answer(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
        for call in calls:
            call()


_boards: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Board] = weakref.WeakKeyDictionary()


def _board() -> _Board:
    """That of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _boards:
        _boards[loop] = _Board(loop)
    return _boards[loop]


class Feed(Generic[T]):
    """A work that runs on a thread, and its items for the event loop: as many as are ready at once.

    Belongs to the loop, on which it is made, but for what the thread does.
    """

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._job = Job()
        self._lock = threading.Lock()
        self._items: list[T] = []
        self._ended = False
        self._error: BaseException | None = None

    def listen(self, wake: Callable[[], object]) -> None:
        """Start the work; `wake` is called on the loop when `take` may have something to give."""
        self._board = _board()
        self._wake = wake
        # with the request's context: its log lines are known by it
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._run,), name="geniex-answer", daemon=True).start()

    def take(self) -> list[T] | None:
        """What is ready, which may be nothing; None at the end. Raises what ended the work."""
        with self._lock:
            items, self._items = self._items, []
            ended, error = self._ended, self._error
        if items or not ended:
            return items
        if error is not None:
            raise error
        return None

    def close(self) -> None:
        """Cancel the work; does not wait for the thread."""
        self._job.cancel()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            with closing(self._work(self._job)) as items:
                for item in items:
                    self._put(item)
                    if self._job.gone.is_set():
                        break
        except BaseException as exc:
            error = exc
        with self._lock:
            self._ended, self._error = True, error
        self._board.call(self._wake)

    def _put(self, item: T) -> None:
        with self._lock:
            self._items.append(item)
            first = len(self._items) == 1
        if first:  # else the loop has been told and has not looked yet
            self._board.call(self._wake)


async def pump(work: Work[T]) -> AsyncGenerator[list[T], None]:
    """Run a work on a thread and give its items as they come, those that are ready together.

    Closing the generator, or cancelling who waits for it, cancels the work; it does not wait for
    the thread. Raises what the work raises, after its items.
    """
    feed = Feed(work)
    ready = asyncio.Event()
    feed.listen(ready.set)
    try:
        while (items := feed.take()) is not None:
            if items:
                yield items
                continue
            await ready.wait()
            ready.clear()
    finally:
        feed.close()


async def collect(work: Work[T], request: Request) -> list[T]:
    """All items of a work. Raises what it raises, and ClientDisconnect when the client goes."""

    async def everything() -> list[T]:
        collected: list[T] = []
        async for items in pump(work):
            collected += items
        return collected

    return await while_connected(everything(), request)


async def while_connected(coroutine: Coroutine[Any, Any, R], request: Request) -> R:
    """Await, but give up when the client goes: cancel it and raise ClientDisconnect."""
    task = asyncio.ensure_future(coroutine)
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _until_gone(request: Request) -> None:
    """Return once the client has closed the connection; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
