"""Which web pages may call: by default those that programs on the same machine serve."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from geniex.keys import LOOPBACK, NONE
from geniex.server.errors import RequestError
from geniex.server.handlers import answer

ANY = "*"
_LOOPBACK = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
_PORTS = {"http": 80, "https": 443}


def cross_origin(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    """Let pages of these origins read answers; `*` is any, and no one gets credentials."""
    everyone = ANY in origins
    return CORSMiddleware(
        app,
        allow_origins=(ANY,) if everyone else _named(origins),
        allow_origin_regex=_LOOPBACK.pattern if LOOPBACK in origins else None,
        allow_methods=("GET", "POST", "HEAD", "OPTIONS"),
        allow_headers=("*",),
        # a page of the internet that was allowed may call into the local network
        allow_private_network=True,
        expose_headers=("x-request-id", "retry-after"),
        allow_credentials=False,
        max_age=86400,
    )


class PageCheck:
    """Refuses what pages of other origins send, before anything is done for it.

    Browsers ask first only for some requests, so without this any page could have models loaded
    and unloaded, or find out which are here. Who sends neither `Origin` nor `Sec-Fetch-Site` is no
    page. A link that is followed to the server's own page is not refused.
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._everyone = ANY in origins
        self._named = frozenset(_named(origins))
        self._loopback = LOOPBACK in origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer with the error."""
        if scope["type"] == "http" and self._is_foreign(scope):
            error = RequestError(
                "pages of other origins may not call this server",
                code="origin_not_allowed",
                status=403,
                hint="its operator allows one with `--origins`",
            )
            await answer(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_foreign(self, scope: Scope) -> bool:
        if self._everyone:
            return False
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        if not origins:
            return self._is_elsewhere(headers) and not _is_link(scope, headers)
        return not (len(origins) == 1 and self._may(origins[0], headers))

    def _is_elsewhere(self, headers: Headers) -> bool:
        """Whether a page sent it that may not call, as far as that shows without its origin."""
        if not _is_fetched(headers, "same-site"):
            return _is_fetched(headers, "cross-site")
        # another port of this machine, or another name below the same domain
        of_this_machine = _LOOPBACK.fullmatch(f"http://{headers.get('host')}")
        return not (self._loopback and of_this_machine)

    def _may(self, origin: str, headers: Headers) -> bool:
        if origin in self._named:
            return True
        if self._loopback and _LOOPBACK.fullmatch(origin):
            return True
        return not _is_fetched(headers, "cross-site") and _is_own(origin, headers.get("host", ""))


def _named(origins: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are origins, and no words for several."""
    return tuple(origin for origin in origins if origin not in (ANY, LOOPBACK, NONE))


def _is_fetched(headers: Headers, how: str) -> bool:
    return any(value.strip().lower() == how for value in headers.getlist("sec-fetch-site"))


def _is_link(scope: Scope, headers: Headers) -> bool:
    """Whether the user follows a link: the answer is shown in a window, to no page."""
    mode, place = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return scope["method"] == "GET" and mode == "navigate" and place == "document"


def _is_own(origin: str, host: str) -> bool:
    """Whether an origin is this server, by the host and port that the request was sent to."""
    try:
        page = urlsplit(origin)
        server = urlsplit(f"{page.scheme}://{host}")
        default = _PORTS.get(page.scheme)
        ports = [url.port or default for url in (page, server)]
    except ValueError:
        return False
    if default is None or page.username is not None or page.path or page.query:
        return False
    return bool(page.hostname) and page.hostname == server.hostname and ports[0] == ports[1]
