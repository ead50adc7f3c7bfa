"""The gate: with the right key and until the server drains, and who is inside is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from geniex.api_keys import KeyRing
from geniex.server.errors import RequestError
from geniex.server.handlers import answer
from geniex_catalogue.errors import ServerBusyError

if TYPE_CHECKING:
    from geniex.server.state import ServerState

# the page and what it needs, and whether the server is well: no secrets, no work
_PUBLIC = frozenset({"/", "/docs", "/openapi.json", "/health", "/ready", "/favicon.ico"})
_PUBLIC_FOLDER = "/docs/"
# what is answered while the server drains
_TO_THE_END = frozenset({"/health", "/ready", "/metrics"})
_RETRY = 10.0  # seconds: a restart takes about as long


class Gate:
    """Lets requests in, and counts who is inside.

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
        keys = self._state.options.keys
        if keys is None or path in _PUBLIC or path.startswith(_PUBLIC_FOLDER):
            return None
        return _wrong_key(keys, Headers(scope=scope).getlist("authorization"))


def _wrong_key(keys: KeyRing, headers: list[str]) -> RequestError | None:
    scheme, _, given = (headers[0] if headers else "").partition(" ")
    # two headers: other programs on the way may have looked at the other one
    right = keys.knows(given.strip()) and len(headers) == 1
    if scheme.lower() == "bearer" and right:
        return None
    problem = "wrong" if given else "missing"
    return RequestError(
        f"the API key is {problem}; send it in the header `Authorization: Bearer KEY`",
        code="invalid_api_key",
        status=401,
    )
