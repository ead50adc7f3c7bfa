"""Streams: their bytes, their status, their pings, their errors and their end."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from starlette.types import Message

from geniex.server.errors import ErrorBody, RequestError
from geniex.server.sse import DONE, PING, EventStream, event, stream
from geniex_runtimes.errors import GenerationError

PATIENCE = 30.0
FOR_EVER = 1000.0


@pytest.mark.parametrize(
    ("data", "name", "sent"),
    [
        ("x", None, b"data: x\n\n"),
        ("a\nb\r\nc", None, b"data: a\ndata: b\ndata: c\n\n"),
        ({"a": "\u00e9\n"}, None, 'data: {"a":"\u00e9\\n"}\n\n'.encode()),
        ({"a": "x\u2028\u2029\u0085é"}, None, b'data: {"a":"x\\u2028\\u2029\\u0085\xc3\xa9"}\n\n'),
        ({"a": 1}, "done", b'event: done\ndata: {"a":1}\n\n'),
        ("\ud800", None, b"data: ?\n\n"),
    ],
)
def test_an_event(data: Any, name: str | None, sent: bytes) -> None:
    assert event(data, name) == sent


class Client:
    """The other side of a response: what it was sent, and a way to go."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int | None:
        starts = [m["status"] for m in self.messages if m["type"] == "http.response.start"]
        assert len(starts) <= 1
        return starts[0] if starts else None

    @property
    def pieces(self) -> list[bytes]:
        return [m["body"] for m in self.messages if m.get("body")]

    @property
    def ended(self) -> bool:
        return bool(self.messages) and self.messages[-1].get("more_body") is False

    async def answered_by(self, response: EventStream) -> None:
        await asyncio.wait_for(response({"type": "http"}, self.receive, self.send), PATIENCE)


def run(scene: Callable[[Client], Any]) -> Client:
    """Play a scene with a client, and give the client back."""

    async def play() -> Client:
        client = Client()
        await scene(client)
        return client

    return asyncio.run(play())


async def eventually(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not what():
            await asyncio.sleep(0.001)


async def of(*pieces: bytes, error: Exception | None = None) -> AsyncGenerator[bytes, None]:
    for piece in pieces:
        yield piece
    if error is not None:
        raise error


def test_all_events_in_order() -> None:
    client = run(lambda c: c.answered_by(stream(of(b"a", b"b", DONE))))
    assert client.status == 200
    assert b"".join(client.pieces) == b"ab" + DONE
    assert client.ended
    headers = dict(client.messages[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"cache-control"] == b"no-cache"
    assert b"content-length" not in headers


def test_no_events_at_all() -> None:
    client = run(lambda c: c.answered_by(stream(of())))
    assert (client.status, client.pieces, client.ended) == (200, [], True)


def test_an_error_before_the_first_event_is_raised() -> None:
    async def scene(client: Client) -> None:
        with pytest.raises(RequestError):
            await client.answered_by(stream(of(error=RequestError("no"))))
        assert client.messages == []

    run(scene)


def test_an_error_after_it_is_an_event() -> None:
    client = run(lambda c: c.answered_by(stream(of(b"a", error=GenerationError("broke")))))
    assert client.status == 200
    assert client.pieces[0] == b"a"
    body = json.loads(client.pieces[1].removeprefix(b"data: "))
    assert body["error"]["code"] == "generation_failed"
    assert len(client.pieces) == 2 and client.ended


def test_an_error_event_of_ones_own() -> None:
    def told(body: ErrorBody) -> bytes:
        return event(body.error, "error")

    response = stream(of(b"a", error=ZeroDivisionError("secret")), on_error=told)
    client = run(lambda c: c.answered_by(response))
    assert client.pieces[1].startswith(b"event: error\ndata: ")
    assert b"secret" not in client.pieces[1]


def test_pings_while_nothing_comes() -> None:
    async def scene(client: Client) -> None:
        enough = asyncio.Event()

        async def slow() -> AsyncGenerator[bytes, None]:
            await enough.wait()
            yield b"a"

        answering = asyncio.create_task(client.answered_by(stream(slow(), ping_every=0.01)))
        await eventually(lambda: len(client.pieces) >= 3)
        enough.set()
        await answering

    client = run(scene)
    assert client.status == 200
    assert set(client.pieces[:-1]) == {PING} and client.pieces[-1] == b"a"


def test_an_error_after_a_ping_is_an_event() -> None:
    async def scene(client: Client) -> None:
        enough = asyncio.Event()

        async def slow() -> AsyncGenerator[bytes, None]:
            await enough.wait()
            raise RequestError("too late")
            yield b""

        answering = asyncio.create_task(client.answered_by(stream(slow(), ping_every=0.01)))
        await eventually(lambda: PING in client.pieces)
        enough.set()
        await answering

    client = run(scene)
    assert client.status == 200
    assert b"too late" in client.pieces[-1]


class Watched:
    """Events that never end, and what became of them."""

    def __init__(self, first: tuple[bytes, ...] = ()) -> None:
        self.first = first
        self.closed = threading.Event()
        self.task_of_start: Any = None
        self.task_of_end: Any = None

    async def events(self) -> AsyncGenerator[bytes, None]:
        self.task_of_start = asyncio.current_task()
        try:
            for piece in self.first:
                yield piece
            await asyncio.sleep(FOR_EVER)
        finally:
            await asyncio.sleep(0)
            self.task_of_end = asyncio.current_task()
            self.closed.set()


@pytest.mark.parametrize("first", [(), (b"a",)], ids=["before the first event", "in the middle"])
def test_a_client_that_goes_ends_the_events(first: tuple[bytes, ...]) -> None:
    watched = Watched(first)

    async def scene(client: Client) -> None:
        answering = asyncio.create_task(client.answered_by(stream(watched.events())))
        await eventually(lambda: client.pieces == list(first) and watched.task_of_start is not None)
        client.gone.set()
        await answering
        assert watched.closed.is_set()

    run(scene)
    # scopes and context variables of the events must be left in the task that entered them
    assert watched.task_of_start is watched.task_of_end


def test_a_send_that_fails_ends_the_events() -> None:
    watched = Watched((b"a",))

    async def scene(client: Client) -> None:
        async def broken(message: Message) -> None:
            raise OSError("the connection is gone")

        client.send = broken  # type: ignore[method-assign]
        with pytest.raises(OSError, match="connection"):
            await client.answered_by(stream(watched.events()))
        assert watched.closed.is_set()

    run(scene)


def test_a_response_that_is_cancelled_ends_the_events() -> None:
    watched = Watched((b"a",))

    async def scene(client: Client) -> None:
        answering = asyncio.create_task(client.answered_by(stream(watched.events())))
        await eventually(lambda: bool(client.pieces))
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        assert watched.closed.is_set()

    run(scene)
