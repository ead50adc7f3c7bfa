"""Who may call: the API key, the pages that browsers may call from, and how large a body may be."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from geniex.server.errors import RequestError
from geniex.server.handlers import answer
from geniex_catalogue.errors import ServerBusyError

if TYPE_CHECKING:
    from geniex.server.state import ServerState

# the page and what it needs, and whether the server is well: no secrets, no work
_PUBLIC = frozenset({"/", "/openapi.json", "/health", "/ready", "/favicon.ico"})
_PUBLIC_FOLDER = "/docs/"
# what is answered while the server drains
_TO_THE_END = frozenset({"/health", "/ready", "/metrics"})
_RETRY = 10.0  # seconds: a restart takes about as long
_PORTS = {"http": 80, "https": 443}


def cross_origin(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    """Let pages of these origins call; `*` is any, but then without credentials."""
    everyone = "*" in origins
    return CORSMiddleware(
        app,
        allow_origins=("*",) if everyone else origins,
        allow_methods=("GET", "POST", "HEAD", "OPTIONS"),
        allow_headers=("*",),
        expose_headers=("x-request-id", "retry-after"),
        allow_credentials=False,
        max_age=86400,
    )


class PageCheck:
    """Refuses what pages of other sites send, unless it is GET: that changes nothing here.

    Browsers ask first only for some requests, so without this any page could have models loaded
    and unloaded. Who sends neither `Origin` nor `Sec-Fetch-Site` is no page.
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer with the error."""
        refused = scope["type"] == "http" and scope["method"] != "GET" and self._foreign(scope)
        if refused:
            error = RequestError(
                "pages of other origins may not call this server",
                code="origin_not_allowed",
                status=403,
                hint="its operator allows one with `--origins`",
            )
            await answer(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _foreign(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if "*" in self._origins or origin in self._origins:
            return False
        if headers.get("sec-fetch-site", "").strip().lower() == "cross-site":
            return True
        return origin is not None and not _is_own(origin, headers.get("host", ""))


def _is_own(origin: str, host: str) -> bool:
    """Whether an origin is this server, by the host and port that the request was sent to."""
    try:
        page = urlsplit(origin)
        server = urlsplit(f"{page.scheme}://{host}")
        default = _PORTS.get(page.scheme)
        ports = [url.port or default for url in (page, server)]
    except ValueError:
        return False
    return bool(page.hostname) and page.hostname == server.hostname and ports[0] == ports[1]


class Gate:
    """Lets requests in, with the right key and until the server drains, and counts who is inside.

    Who only watches the server is let in to the end and not counted.
    """

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer with the error."""
        if scope["type"] == "http" and (error := self._refusal(scope)) is not None:
            response = answer(error)
            if isinstance(error, RequestError):
                response.headers["www-authenticate"] = "Bearer"
            await response(scope, receive, send)
            return
        inside = scope["type"] == "http" and scope["path"] not in _TO_THE_END
        self._state.active += inside
        try:
            await self._app(scope, receive, send)
        finally:
            self._state.active -= inside

    def _refusal(self, scope: Scope) -> RequestError | ServerBusyError | None:
        path: str = scope["path"]
        if self._state.draining and path not in _TO_THE_END:
            return ServerBusyError("the server is about to end", retry_after=_RETRY)
        key = self._state.options.api_key
        if key is None or path in _PUBLIC or path.startswith(_PUBLIC_FOLDER):
            return None
        return _wrong_key(key, Headers(scope=scope).get("authorization"))


def _wrong_key(key: str, header: str | None) -> RequestError | None:
    scheme, _, given = (header or "").partition(" ")
    # headers are latin-1; as bytes any two can be compared in constant time
    right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), key.encode())
    if scheme.lower() == "bearer" and right:
        return None
    problem = "wrong" if given else "missing"
    return RequestError(
        f"the API key is {problem}; send it in the header `Authorization: Bearer KEY`",
        code="invalid_api_key",
        status=401,
    )


class BodyLimit:
    """Refuses bodies of more than `most` bytes, by their header or as they come."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a `receive` that counts. Raises HTTPException in who reads too much."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._most:
            await answer(self._error())(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._error().message)
            return message

        await self._app(scope, counted, send)

    def _error(self) -> RequestError:
        return RequestError(
            f"the body is larger than {self._most} bytes", code="request_too_large", status=413
        )
