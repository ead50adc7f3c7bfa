"""How large a body may be, and how long it may take to come."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from geniex.server.errors import RequestError
from geniex.server.handlers import answer

PATIENCE = 30.0  # seconds for the first bytes, and between any two
SLOWEST = 500  # bytes a second, over all: a modem of 1990 has ten times that


class BodyLimit:
    """Refuses bodies of more than `most` bytes, by their header or as they come, and endless ones.

    A body may come as slowly as it needs to, but it has to come: `patience` is the seconds that
    nothing may come, and that the whole may be behind the slowest line there is.
    """

    def __init__(self, app: ASGIApp, most: int, patience: float = PATIENCE) -> None:
        self._app = app
        self._most = most
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a `receive` that counts. Raises HTTPException in who reads too much."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._most:
            await answer(self._too_large())(scope, receive, send)
            return
        await self._app(scope, _Body(receive, self._most, self._patience).receive, send)

    def _too_large(self) -> RequestError:
        return RequestError(_size(self._most), code="request_too_large", status=413)


class _Body:
    """A body on its way."""

    def __init__(self, receive: Receive, most: int, patience: float) -> None:
        self._receive = receive
        self._most = most
        self._patience = patience
        self._began = time.monotonic()
        self._read = 0
        self._whole = False

    async def receive(self) -> Message:
        """The next piece. Raises HTTPException for one too much, and for none in time."""
        if self._whole:
            # what comes now is that the client leaves, and that may take as long as it likes
            return await self._receive()
        try:
            async with asyncio.timeout(self._left()):
                message = await self._receive()
        except TimeoutError:
            raise _closing(408, "the body did not come in time") from None
        self._read += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._read > self._most:
            raise _closing(413, _size(self._most))
        return message

    def _left(self) -> float:
        """Seconds until the next piece has to be there."""
        passed = time.monotonic() - self._began
        allowed = self._patience + self._read / SLOWEST
        return max(0.0, min(self._patience, allowed - passed))


def _closing(status: int, text: str) -> HTTPException:
    # the rest of the body is not worth reading
    return HTTPException(status, text, {"connection": "close"})


def _size(most: int) -> str:
    return f"the body is larger than {most} bytes"
