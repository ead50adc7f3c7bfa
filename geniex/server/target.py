"""Where a request is sent to: `GET http://host/path` means the same as `GET /path` at that host."""

import re
from urllib.parse import unquote

from starlette.types import Scope

_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(/.*)?", re.IGNORECASE | re.DOTALL)


def origin_form(scope: Scope) -> Scope:
    """The scope with the path alone; what stood before it is the host, whatever `Host` says.

    A server has to take both forms, and the one of the target counts (RFC 9112, 3.2.2).
    """
    found = _ABSOLUTE.fullmatch(scope.get("raw_path") or b"")
    if found is None or scope["path"].startswith("/"):
        return scope
    raw = found[2] or b"/"
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {
        **scope,
        "raw_path": raw,
        "path": unquote(raw.decode("latin-1")),
        "headers": [(b"host", found[1]), *headers],
    }
