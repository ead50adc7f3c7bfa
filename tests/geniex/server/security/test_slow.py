"""Clients that take their time, or come in crowds: they keep nobody else out.

The times here are short; that something ends is waited for as long as it takes.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from geniex.server.security.body import BodyLimit
from geniex.server.security.connection import Connection
from tests.geniex.server.security.wire import Link, Reply, connect, head, receive, send

GET = head("/", host="localhost")


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers, in parts where it is asked for many, and without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(2000 if scope["path"] == "/much" else 1):
        await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
    await asyncio.sleep(0.6 if scope["path"] == "/slow" else 0)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


@contextmanager
def serving(**limits: Any) -> Iterator[tuple[str, uvicorn.Server]]:
    """A server with these limits of its connections."""
    kind = type("Limited", (Connection,), limits)
    config = uvicorn.Config(app, http=kind, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = True
            server.force_exit = True
            thread.join()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"GET / HT", 408, id="half a line"),
        pytest.param(GET[:-2], 408, id="no end"),
        pytest.param(GET[:-2] + b"X-A: 1\r\n" * 50, 408, id="header after header"),
    ],
)
def test_heads_that_do_not_end(sent: bytes, status: int) -> None:
    with serving(head_seconds=0.2) as (url, _):
        reply = send(url, sent)
        assert reply.status == status
        assert reply.code == ("request_timeout" if status else None)
        assert send(url, GET).status == 200


def test_heads_that_trickle() -> None:
    with serving(head_seconds=0.3) as (url, _), connect(url) as link:
        link.socket.settimeout(0.02)
        sent = 0
        try:
            for sent in range(2000):
                link.sendall(b"GET / HTTP/1.1\r\n" if sent == 0 else b"X-A: 1\r\n")
                if _said(link):
                    break
        except ConnectionError:
            pass  # closed, as it has to be
        assert sent < 1999


def test_the_second_head_does_not_trickle_either() -> None:
    with serving(head_seconds=0.2) as (url, _), connect(url) as link:
        link.sendall(GET)
        assert receive(link).status == 200
        link.sendall(GET[:20])
        assert receive(link).status == 408


def test_the_rest_of_a_body_that_nobody_reads() -> None:
    body = head("/", [("Content-Length", "1000000")], method="POST", host="localhost")
    with serving(head_seconds=0.2) as (url, _), connect(url) as link:
        link.sendall(body)
        assert receive(link, "POST").status == 200
        assert receive(link).status == 0


def test_answers_may_take_longer_than_heads() -> None:
    with serving(head_seconds=0.1, stall_seconds=0.1) as (url, _):
        assert send(url, head("/slow", host="localhost")).status == 200


def test_who_does_not_read_is_cut_off() -> None:
    with serving(stall_seconds=0.2) as (url, server), connect(url) as link:
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.sendall(head("/much", host="localhost"))
        while not server.server_state.tasks:
            threading.Event().wait(0.01)
        while server.server_state.connections:
            threading.Event().wait(0.01)
        assert send(url, GET).status == 200


def test_a_crowd_that_says_nothing_makes_room() -> None:
    with serving(most=3, patience_seconds=0) as (url, server):
        crowd = [connect(url) for _ in range(12)]
        try:
            assert [send(url, GET).status for _ in range(5)] == [200] * 5
            assert len(server.server_state.connections) <= 4
        finally:
            for link in crowd:
                link.__exit__()


def test_a_crowd_that_is_answered_does_not() -> None:
    with serving(most=2) as (url, server):
        busy = [connect(url), connect(url)]
        try:
            for link in busy:
                link.sendall(head("/slow", host="localhost"))
            while len(server.server_state.tasks) < 2:
                threading.Event().wait(0.01)
            reply = send(url, GET)
            assert (reply.status, reply.code) == (503, "server_busy")
            assert reply.headers["retry-after"]
            assert [receive(link).status for link in busy] == [200, 200]
        finally:
            for link in busy:
                link.__exit__()
        assert send(url, GET).status == 200


def _said(link: Link) -> bool:
    try:
        return bool(link.socket.recv(1)) or True
    except TimeoutError:
        return False


def body_of(pieces: list[tuple[float, bytes]], patience: float, most: int = 1 << 20) -> bytes:
    """What an application reads of a body whose pieces come after so many seconds each."""
    read = bytearray()

    async def reader(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            read.extend(message["body"])
            if not message["more_body"]:
                return

    async def come() -> Message:
        seconds, piece = pieces.pop(0)
        await asyncio.sleep(seconds)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def nowhere(message: Message) -> None:
        """Nobody is told."""

    limited = BodyLimit(reader, most, patience)
    asyncio.run(limited({"type": "http", "headers": []}, come, nowhere))
    return bytes(read)


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param([(60, b"x")], 408, id="never"),
        pytest.param([(0, b"x" * 99), (60, b"")], 408, id="not the end"),
        pytest.param([(0.02, b"x")] * 300, 408, id="a trickle"),
        pytest.param([(0, b"x" * 600_000)] * 2, 413, id="too much"),
    ],
)
def test_bodies_that_do_not_end(pieces: list[tuple[float, bytes]], status: int) -> None:
    with pytest.raises(HTTPException) as caught:
        body_of(list(pieces), patience=0.1)
    assert caught.value.status_code == status
    assert caught.value.headers == {"connection": "close"}


def test_a_slow_line_is_waited_for() -> None:
    pieces = [(0.01, b"x" * 2000)] * 60
    assert len(body_of(list(pieces), patience=0.5)) == 120_000


def test_a_reply_that_is_none() -> None:
    assert Reply(0, {}, b"").code is None
