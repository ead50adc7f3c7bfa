"""What kind of body a request says it has: `curl -d` says a form, and means JSON."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

_JSON = "application/json"
# what tools say by themselves when they send text
_UNTHOUGHT = frozenset({"", "text/plain", "application/x-www-form-urlencoded"})


class BodyType:
    """Takes a body for JSON where a tool's default says something else.

    Never for a browser: there the type is what keeps the forms of other sites out, and a browser
    tells where a POST comes from.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with another type where the one given was nobody's choice."""
        if scope["type"] == "http" and scope["method"] == "POST" and _is_unthought(scope):
            # not a copy of the scope: the route is written into it, for who is outside
            scope["headers"] = list(scope["headers"])
            MutableHeaders(scope=scope)["content-type"] = _JSON
        await self._app(scope, receive, send)


def _is_unthought(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    if "origin" in headers or "sec-fetch-site" in headers or "referer" in headers:
        return False
    return headers.get("content-type", "").partition(";")[0].strip().lower() in _UNTHOUGHT
