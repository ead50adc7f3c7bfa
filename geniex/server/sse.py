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
from typing import Any, Protocol

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from geniex.server.errors import ErrorBody, describe, note

PING_EVERY = 5.0  # seconds
PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_BREAKS = str.maketrans({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)})


def as_json(value: object) -> str:
    """A value as JSON on one line, as `on_one_line` means it."""
    return on_one_line(_encode(value))


def on_one_line(text: str) -> str:
    """JSON without the line breaks of Unicode: many clients cut a stream at these, too."""
    # a text without them, as nearly all are, is left alone: this is done for each chunk
    return text if text.isascii() else text.translate(_BREAKS)


def event(data: str | BaseModel | Mapping[str, Any], name: str | None = None) -> bytes:
    """One event; a text may have several lines, everything else is sent as JSON."""
    if isinstance(data, BaseModel):
        data = on_one_line(data.model_dump_json())
    elif not isinstance(data, str):
        data = as_json(data)
    head = f"event: {name}\n" if name else ""
    lines = "".join(f"data: {line}\n" for line in data.replace("\r\n", "\n").split("\n"))
    # a lone surrogate cannot be sent
    return f"{head}{lines}\n".encode("utf-8", "replace")


def error_event(body: ErrorBody) -> bytes:
    """How a chat or completion tells an error in the middle of a stream."""
    return event(body)


class Source(Protocol):
    """Where the bytes of a stream come from. Belongs to the event loop."""

    def listen(self, wake: Callable[[], object]) -> None:
        """Begin; `wake` is called, on the loop, whenever `take` may have something to give."""
        ...

    def take(self) -> bytes | None:
        """What is ready, which may be nothing; None at the end. Raises what ended it."""
        ...

    async def close(self) -> None:
        """End what still runs."""
        ...


def stream(
    events: AsyncGenerator[bytes, None] | Source,
    *,
    on_error: Callable[[ErrorBody], bytes] = error_event,
    ping_every: float = PING_EVERY,
    headers: Mapping[str, str] | None = None,
) -> "EventStream":
    """Stream what a source gives, or an async generator; closed at the end, and if the client goes.

    `on_error` makes the event for an error after the first byte. `ping_every` is seconds.
    """
    source = _Generated(events) if isinstance(events, AsyncGenerator) else events
    return EventStream(source, on_error, ping_every, headers)


class EventStream(Response):
    """The response of `stream`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        source: Source,
        on_error: Callable[[ErrorBody], bytes],
        ping_every: float,
        headers: Mapping[str, str] | None,
    ) -> None:
        own = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(headers={**own, **(headers or {})})
        del self.headers["content-length"]
        self._source = source
        self._on_error = on_error
        self._ping_every = ping_every

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises what they raise before the first byte has left."""
        gone = asyncio.create_task(_gone(receive))
        bell = _Bell(self._ping_every)
        gone.add_done_callback(bell.ring)
        source = self._source
        begun = False
        try:
            source.listen(bell.ring)
            while not gone.done() and (piece := source.take()) is not None:
                if not piece:
                    if await bell.rung():
                        continue
                    piece = PING
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
            bell.close()
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


class _Bell:
    """Wakes the one task that waits. One timer serves the whole stream: chunks come fast."""

    def __init__(self, seconds: float) -> None:
        """`seconds` is for how long one waits at the most."""
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._waiter: asyncio.Future[bool] | None = None
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._due, self._tick)

    def ring(self, _: object = None) -> None:
        """Something may have happened."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    async def rung(self) -> bool:
        """Wait for the bell; False where it was silent for too long."""
        self._due = self._loop.time() + self._seconds
        self._waiter = self._loop.create_future()
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def _tick(self) -> None:
        late = self._loop.time() >= self._due
        if late:
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(False)
            self._due = self._loop.time() + self._seconds
        self._timer = self._loop.call_at(self._due, self._tick)

    def close(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()


class _Generated:
    """Runs an async generator in one task of its own, from its first step to its closing."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._events = events
        self._ready: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    def listen(self, wake: Callable[[], object]) -> None:
        """See `Source.listen`."""

        async def run() -> None:
            async with aclosing(self._events) as events:
                async for piece in events:
                    self._ready.append(piece)
                    wake()

        self._task = asyncio.create_task(run())
        self._task.add_done_callback(lambda _: wake())

    def take(self) -> bytes | None:
        """See `Source.take`: the events that are ready together as one."""
        if self._ready:
            ready, self._ready = self._ready, []
            return b"".join(ready)
        if self._task is None or not self._task.done():
            return b""
        self._task.result()
        return None

    async def close(self) -> None:
        """End the generator, where it still runs, and wait until it has cleaned up."""
        if self._task is None:
            return
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
