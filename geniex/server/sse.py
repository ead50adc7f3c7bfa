"""Server-sent events: their bytes, and the response that streams them.

A stream's status is decided by its first event: an error before it is answered with its own status.
Where nothing comes for a while (a long load or prefill), the stream begins with a comment, so that
no proxy and no client gives up, and an error after that is an event. A client that goes away ends
what it waited for.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from geniex.server.errors import ErrorBody, describe, note

PING_EVERY = 5.0  # seconds
PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"


def event(data: str | BaseModel | Mapping[str, Any], name: str | None = None) -> bytes:
    """One event; a text may have several lines, everything else is sent as JSON."""
    if isinstance(data, BaseModel):
        data = data.model_dump_json()
    elif not isinstance(data, str):
        data = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    lines = "".join(f"data: {line}\n" for line in data.replace("\r\n", "\n").split("\n"))
    # a lone surrogate cannot be sent
    return f"{head}{lines}\n".encode("utf-8", "replace")


def error_event(body: ErrorBody) -> bytes:
    """How a chat or completion tells an error in the middle of a stream."""
    return event(body)


def stream(
    events: AsyncGenerator[bytes, None],
    *,
    on_error: Callable[[ErrorBody], bytes] = error_event,
    ping_every: float = PING_EVERY,
    headers: Mapping[str, str] | None = None,
) -> "EventStream":
    """Stream what an async generator yields; it is closed at the end, and when the client goes.

    `on_error` makes the event for an error after the first byte. `ping_every` is seconds.
    """
    return EventStream(events, on_error, ping_every, headers)


class EventStream(Response):
    """The response of `stream`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        on_error: Callable[[ErrorBody], bytes],
        ping_every: float,
        headers: Mapping[str, str] | None,
    ) -> None:
        own = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(headers={**own, **(headers or {})})
        del self.headers["content-length"]
        self._events = events
        self._on_error = on_error
        self._ping_every = ping_every

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises what they raise before the first byte has left."""
        gone = asyncio.create_task(_gone(receive))
        source = _Source(self._events, gone)
        begun = False
        try:
            async for piece in source.pieces(self._ping_every):
                if not begun:
                    begun = True
                    await self._begin(send)
                await _send_piece(send, piece)
        except Exception as exc:
            if not begun:
                raise
            status, body, _ = describe(exc)
            note(exc, status)
            await _send_piece(send, self._on_error(body))
        finally:
            gone.cancel()
            await source.close()
        if not begun:
            await self._begin(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )


class _Source:
    """Runs the generator in one task of its own, from its first step to its closing."""

    def __init__(self, events: AsyncGenerator[bytes, None], gone: "asyncio.Task[None]") -> None:
        self._ready: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._gone = gone
        self._task = asyncio.create_task(self._run(events))
        for task in (self._task, gone):
            task.add_done_callback(self._wake)

    async def _run(self, events: AsyncGenerator[bytes, None]) -> None:
        async with aclosing(events):
            async for piece in events:
                self._ready.append(piece)
                self._wake()

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _news(self, seconds: float) -> None:
        """Wait until anything happens, but not longer."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    async def pieces(self, ping_every: float) -> AsyncGenerator[bytes, None]:
        """The events, those that are ready together as one; a ping when there was none for long.

        Ends when the client is gone. Raises what the generator raised.
        """
        while not self._gone.done():
            if self._ready:
                ready, self._ready = self._ready, []
                yield b"".join(ready)
            elif self._task.done():
                self._task.result()
                return
            else:
                await self._news(ping_every)
                if not (self._ready or self._task.done() or self._gone.done()):
                    yield PING

    async def close(self) -> None:
        """End the generator, where it still runs, and wait until it has cleaned up."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            # look at it, or asyncio complains that nobody did
            self._task.exception()


async def _send_piece(send: Send, piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        continue
