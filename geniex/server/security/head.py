"""How large the head of a request may be, and that it says in one way how long its body is."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from geniex.server.errors import RequestError
from geniex.server.handlers import answer

MAX_TARGET = 8 << 10  # bytes of an address with its query
MAX_HEADERS = 32 << 10  # bytes of all headers
MAX_COUNT = 100  # headers
_VERSIONS = ("1.0", "1.1")
_LINE = 4  # bytes around the name and value of a header


class HeadLimit:
    """Refuses heads that are too large, and bodies that are measured or packed in other ways."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer with the error."""
        if scope["type"] == "http" and (error := _refusal(scope)) is not None:
            response = answer(error)
            if error.code in ("ambiguous_length", "invalid_http"):
                # where this request ends is anybody's guess
                response.headers["connection"] = "close"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refusal(scope: Scope) -> RequestError | None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if (version := scope.get("http_version", "1.1")) not in _VERSIONS:
        return RequestError(
            f"HTTP/{version} is not spoken here, but HTTP/1.1", code="invalid_http", status=505
        )
    target = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    if target > MAX_TARGET:
        return RequestError(
            f"the address is longer than {MAX_TARGET} bytes", code="address_too_long", status=414
        )
    size = sum(len(name) + len(value) + _LINE for name, value in headers)
    if len(headers) > MAX_COUNT or size > MAX_HEADERS:
        return RequestError(
            f"the request has more than {MAX_COUNT} headers, or more than {MAX_HEADERS} bytes of "
            "them",
            code="headers_too_large",
            status=431,
        )
    return _about_body(headers)


def _about_body(headers: list[tuple[bytes, bytes]]) -> RequestError | None:
    names = {name for name, _ in headers}
    if b"transfer-encoding" in names and b"content-length" in names:
        return RequestError(
            "the request has both `Content-Length` and `Transfer-Encoding`: where it ends is "
            "ambiguous",
            code="ambiguous_length",
        )
    packed = (value for name, value in headers if name == b"content-encoding")
    if any(value.strip().lower() not in (b"", b"identity") for value in packed):
        return RequestError(
            "the body is compressed: send it as it is, without `Content-Encoding`",
            code="unsupported_encoding",
            status=415,
        )
    return None
