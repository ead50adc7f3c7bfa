"""By which names the server answers.

A page of a stranger can give its own name the address of this machine (DNS rebinding), and is then
of the same origin as the server, for the browser. The name that it was called by gives it away: it
stands in `Host`. An address cannot be given to anybody, so all of them are taken.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from geniex.server.errors import RequestError
from geniex.server.handlers import answer

ANY = "*"
# what containers call the machine that they run on
_OF_CONTAINERS = ("host.docker.internal", "host.containers.internal")
_HOST = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45}(?:%[\w.~%-]{1,32})?)\]|(?P<name>[\w.-]{1,253}))(?::\d{0,5})?",
    re.ASCII,
)


class HostCheck:
    """Refuses what was sent to a name that is not this machine's."""

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        """`allowed` are further names; `*.name` is all below one, `*` is any."""
        self._app = app
        given = [plain for name in allowed if (plain := _plain(name))]
        self._any = ANY in given
        self._endings = tuple(name[1:] for name in given if name.startswith("*."))
        self._names = frozenset((*given, *own_names(), *_OF_CONTAINERS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer with the error."""
        if scope["type"] == "http" and (error := self._refusal(scope)) is not None:
            await answer(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> RequestError | None:
        given = [value for name, value in scope["headers"] if name == b"host"]
        if not given and scope.get("http_version") == "1.0":
            return None  # no browser speaks so
        host = host_of(given[0].decode("latin-1")) if len(given) == 1 else None
        if host is None:
            return RequestError(
                "the header `Host` is missing or names no host", code="invalid_host"
            )
        if self._any or self._is_ours(host):
            return None
        return RequestError(
            f"this server does not answer to the name `{host[:100]}`",
            code="host_not_allowed",
            status=421,
            hint="its operator allows one with `--allowed-hosts`",
        )

    def _is_ours(self, host: str) -> bool:
        return host in self._names or host.endswith(self._endings) or is_local(host)


def host_of(header: str) -> str | None:
    """The host in a header, small and without a port; None for what is no host."""
    found = _HOST.fullmatch(header)
    if found is None:
        return None
    if found["six"] is None:
        return _plain(found["name"]) or None
    return found["six"].lower() if _is_address(found["six"]) else None


def is_local(host: str) -> bool:
    """Whether a name means whoever uses it, or is an address."""
    return host == "localhost" or host.endswith(".localhost") or _is_address(host)


def own_names() -> frozenset[str]:
    """What this machine calls itself; the network is not asked, as it may lie."""
    try:
        name = _plain(socket.gethostname())
    except OSError:
        return frozenset()
    short = name.partition(".")[0]
    return frozenset({name, short, f"{short}.local"}) if short else frozenset()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    """A name as it is compared: small, and without the dot that may end it."""
    return name.strip().lower().removesuffix(".")
