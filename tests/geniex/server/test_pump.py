"""A blocking work on its thread, and the event loop that listens to it."""

import asyncio
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from geniex.server.pump import Job, collect, pump
from tests.geniex.server.door import wait_for


class Running:
    """Events without an end, until they are closed."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[int]:
        yield 0
        self.started.set()
        self.closed.wait(30)

    def close(self) -> None:
        self.closed.set()


class Endless:
    """A work on running events that notes how it ended."""

    def __init__(self) -> None:
        self.events = Running()
        self.ended = threading.Event()

    def __call__(self, job: Job) -> Generator[int, None, None]:
        try:
            job.closes(self.events)
            yield from self.events
        finally:
            self.ended.set()


def a_request(*, disconnects: threading.Event | None = None) -> Request:
    """A request whose client goes when the event is set."""

    async def receive() -> Any:
        while disconnects is None or not disconnects.is_set():
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def counting(job: Job) -> Generator[int, None, None]:
    yield from range(1000)


def failing(job: Job) -> Generator[int, None, None]:
    yield 1
    raise ValueError("broken")


def test_items_come_whole_and_in_order() -> None:
    async def listen() -> list[list[int]]:
        return [items async for items in pump(counting)]

    batches = asyncio.run(listen())
    assert [item for items in batches for item in items] == list(range(1000))
    assert all(batches)


def test_what_is_ready_comes_in_one_hop() -> None:
    released = threading.Event()

    def work(job: Job) -> Generator[int, None, None]:
        yield 0
        released.wait(30)
        yield from range(1, 100)

    async def listen() -> list[list[int]]:
        batches = []
        async for items in pump(work):
            batches.append(items)
            if not released.is_set():
                released.set()
                # the loop is busy while the thread goes on
                wait_for(lambda: not any(t.name == "geniex-answer" for t in threading.enumerate()))
        return batches

    assert [len(items) for items in asyncio.run(listen())] == [1, 99]


def test_works_that_have_something_together_wake_the_loop_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready, together = threading.Barrier(4), threading.Event()

    def work(job: Job) -> Generator[int, None, None]:
        yield 0
        ready.wait(30)
        together.wait(30)
        yield 1

    async def listen() -> tuple[list[list[list[int]]], int]:
        loop = asyncio.get_running_loop()
        tell, wakes = loop.call_soon_threadsafe, []

        def counted(*given: Any, **fields: Any) -> Any:
            wakes.append(given)
            return tell(*given, **fields)

        async def read() -> list[list[int]]:
            return [items async for items in pump(work)]

        reading = [asyncio.create_task(read()) for _ in range(3)]
        await asyncio.to_thread(ready.wait, 30)
        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        together.set()
        # the loop is busy while the threads go on to their ends
        wait_for(lambda: not any(t.name == "geniex-answer" for t in threading.enumerate()))
        return await asyncio.gather(*reading), len(wakes)

    batches, wakes = asyncio.run(listen())
    assert [[item for items in one for item in items] for one in batches] == [[0, 1]] * 3
    assert wakes == 1


def test_an_error_comes_after_the_items() -> None:
    async def listen() -> list[int]:
        collected: list[int] = []
        with pytest.raises(ValueError, match="broken"):
            async for items in pump(failing):
                collected += items
        return collected

    assert asyncio.run(listen()) == [1]


def test_closing_cancels_what_runs() -> None:
    work = Endless()

    async def listen() -> None:
        batches = pump(work)
        assert await anext(batches) == [0]
        await batches.aclose()

    asyncio.run(listen())
    assert work.events.closed.is_set()
    wait_for(work.ended.is_set)


def test_cancelling_who_waits_cancels_what_runs() -> None:
    work = Endless()

    async def listen() -> None:
        async def wait() -> None:
            async for _ in pump(work):
                pass

        task = asyncio.create_task(wait())
        while not work.events.started.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(listen())
    wait_for(work.ended.is_set)


def test_events_that_begin_after_the_cancel_are_closed_at_once() -> None:
    job, events = Job(), Running()
    job.cancel()
    job.closes(events)
    assert events.closed.is_set()


def test_a_work_that_is_slow_to_begin_is_told_that_its_client_has_gone() -> None:
    told = threading.Event()

    def work(job: Job) -> Generator[int, None, None]:
        if job.gone.wait(30):
            told.set()
        yield 0

    async def listen() -> None:
        batches = pump(work)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(batches), 0.05)
        await batches.aclose()

    asyncio.run(listen())
    wait_for(told.is_set)


def test_collect_gives_everything() -> None:
    assert asyncio.run(collect(counting, a_request())) == list(range(1000))


def test_collect_raises_what_the_work_raises() -> None:
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(collect(failing, a_request()))


def test_collect_ends_when_the_client_goes() -> None:
    work = Endless()
    with pytest.raises(ClientDisconnect):
        asyncio.run(collect(work, a_request(disconnects=work.events.started)))
    wait_for(work.ended.is_set)
