"""What is done for every request, whatever it is: its id, the counters, the last resort.

A path counts with and without a slash at its end, and two at its beginning are one: base addresses
are typed in all these ways. HEAD is answered as GET, without the body.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from geniex.server import request_id
from geniex.server.handlers import answer
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
        name = request_id.begin(Headers(scope=scope).get(request_id.HEADER))
        # a copy: the HTTP server looks at the method of its own to send no body for HEAD
        inner = {**scope, "path": _path(scope["path"])}
        if scope["method"] == "HEAD":
            inner["method"] = "GET"
        status = _CLIENT_GONE
        started = time.monotonic()

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[request_id.HEADER] = name
            await send(message)

        try:
            await self._app(inner, receive, named)
        finally:
            seconds = time.monotonic() - started
            # quoted, as it came: a path may hold line breaks
            path = quote(scope["path"], safe="/:")
            _log.info("%s %s %s %s in %.3f s", name, scope["method"], path, status, seconds)
            route = getattr(inner.get("route"), "path", "unknown")
            self._state.metrics.requested(route, _known(scope["method"]), status, seconds)


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
