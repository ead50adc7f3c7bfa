"""What is done for every request, whatever it is: its id, the counters, the last resort.

A path counts with and without a slash at its end, and two at its beginning are one: base addresses
are typed in all these ways. HEAD is answered as GET, without the body.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from geniex.server import request_id
from geniex.server.handlers import answer
from geniex.server.observed import UNKNOWN, Observed, observe
from geniex.server.target import origin_form
from geniex_catalogue.errors import ServerBusyError

if TYPE_CHECKING:
    from geniex.server.state import ServerState

_log = logging.getLogger("geniex.server")
_CLIENT_GONE = 499  # no answer was sent; the number that other servers log for it


class Envelope:
    """The outermost layer: names and counts requests, and logs each with its status and time."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = origin_form(scope)
        name = request_id.begin(Headers(scope=scope).get(request_id.HEADER))
        request = Observed(name, _known(scope["method"]), scope["path"])
        observe(request)
        if self._state.tracing is not None:
            self._state.tracing.begin(request, scope)
        # a copy: the HTTP server looks at the method of its own to send no body for HEAD
        inner = {**scope, "path": _path(scope["path"])}
        if scope["method"] == "HEAD":
            inner["method"] = "GET"
        request.status = _CLIENT_GONE
        whole = False
        started = time.monotonic()

        async def named(message: Message) -> None:
            nonlocal whole
            if message["type"] == "http.response.start":
                request.status = message["status"]
                MutableHeaders(scope=message)[request_id.HEADER] = name
            elif not message.get("more_body", False):
                whole = True
            await send(message)

        async def listened() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not whole:
                request.cancelled = True
            return message

        try:
            await self._app(inner, listened, named)
        finally:
            request.seconds = time.monotonic() - started
            request.route = getattr(inner.get("route"), "path", UNKNOWN)
            self._ended(request)

    def _ended(self, request: Observed) -> None:
        """Log, count and trace a request."""
        if _log.isEnabledFor(logging.INFO):
            said = f"{request.method} {request.where} {request.status}"
            _log.info("%s", said, extra={"fields": request.fields()})
        self._state.metrics.requested(request)
        if self._state.tracing is not None:
            self._state.tracing.end(request)


class Guard:
    """The last resort: what nobody foresaw is logged, and answered without a trace."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and answer what is raised where no answer has begun."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            if not self._state.draining:
                raise
            # the last of the grace time is over: there is nothing more to unwind
            if scope["type"] == "http" and not begun:
                await answer(ServerBusyError("the server has ended"))(scope, receive, send)
        except Exception as exc:
            response = answer(exc)  # and the log has it
            if scope["type"] == "http" and not begun:
                await response(scope, receive, send)
            # else the server cuts the connection: half an answer must not look whole


def _path(path: str) -> str:
    return "/" + path.strip("/") if path.strip("/") else "/"


def _known(method: str) -> str:
    """A method as a label: clients may send any word, and each would be a series."""
    return method if method in {"GET", "POST", "HEAD", "OPTIONS"} else "other"
