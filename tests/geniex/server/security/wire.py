"""Requests as bytes, since clients send no wrong ones."""

import io
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 30.0  # seconds for an answer, on a machine that does other things too


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `status` 0 is a connection that was closed without one."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str | None:
        """The code of the error, None for what is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return None
        error = found.get("error") if isinstance(found, dict) else None
        return None if error is None else str(error["code"])


class Link:
    """A connection to a server, on which several answers may come at once."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        where = (place.hostname, place.port or 80)
        self.socket = socket.create_connection(where, timeout=PATIENCE)
        self.sendall = self.socket.sendall
        self._file = _Kept(socket.SocketIO(self.socket, "r"))

    def makefile(self, *given: object) -> "_Kept":
        """One for all answers: it may hold the beginning of the next."""
        return self._file

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class _Kept(io.BufferedReader):
    def close(self) -> None:
        """Stay open: `http.client` closes it after each answer."""


def connect(url: str) -> Link:
    """A connection to a server."""
    return Link(url)


def receive(link: Link, method: str = "GET") -> Reply:
    """The next answer of a connection."""
    response = HTTPResponse(link, method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ConnectionError):
        return Reply(0, {}, b"")
    return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, body)


def send(url: str, raw: bytes, *, ends: bool = False) -> Reply:
    """Send bytes, and take the answer; `ends` says that nothing more will come."""
    with connect(url) as link:
        try:
            link.sendall(raw)
            if ends:
                link.socket.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass  # it was refused before all was sent; what was said is read all the same
        return receive(link)


def head(
    target: str, headers: Iterable[tuple[str, str]] = (), *, method: str = "GET", host: str = "x"
) -> bytes:
    """A head: `host` is a line of its own unless it is empty."""
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"Host: {host}"] if host else []
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join([*lines, "", ""])).encode("latin-1")


def post(target: str, body: bytes, *headers: tuple[str, str], host: str = "localhost") -> bytes:
    """A whole POST of JSON."""
    given = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return head(target, [*given, *headers], method="POST", host=host) + body


def as_json(**fields: Any) -> bytes:
    """A body; half characters are written as they come."""
    return json.dumps(fields).encode()
