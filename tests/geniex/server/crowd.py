"""Many clients at once on plain sockets: no threads, so that the crowd itself takes little."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

from tests.geniex.server.live import PATIENCE

CAPITAL = "The capital of France is Paris."
QUESTION: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
}


def request(path: str, body: object = None, *, close: bool = True) -> bytes:
    """A request as bytes; the connection is to be closed behind it, or not."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "host: 127.0.0.1"]
    lines += ["content-type: application/json", f"content-length: {len(data)}"]
    lines += ["connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode() + data


class Link:
    """A connection of a client of its own."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        address = (place.hostname or "", place.port or 0)
        self.socket = socket.create_connection(address, timeout=PATIENCE)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def answer(self) -> tuple[int, bytes]:
        """The next answer; a status of 0 where the connection was cut off."""
        try:
            words = self._file.readline().split()
            size = 0
            while line := self._file.readline().strip():
                name, _, value = line.partition(b":")
                size = int(value) if name.lower() == b"content-length" else size
            return (int(words[1]), self._file.read(size)) if words else (0, b"")
        except ConnectionError:
            return 0, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()


@contextmanager
def connected(url: str, count: int) -> Iterator[Sequence[Link]]:
    """So many connections, closed at the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(Link(url)) for _ in range(count)]


def crowd(url: str, count: int, between: object = None) -> Counter[str]:
    """So many clients ask at once: how many were answered, turned away, or anything else.

    `between` is called once all have asked.
    """
    told: Counter[str] = Counter()
    with connected(url, count) as links:
        for link in links:
            link.send(request("/v1/chat/completions", QUESTION))
        if callable(between):
            between()
        for link in links:
            status, data = link.answer()
            right = status == 200 and CAPITAL.encode() in data
            busy = status == 503 and b"server_busy" in data
            told["answered" if right else "busy" if busy else f"{status} {data[:200]!r}"] += 1
    return told


def await_health(url: str) -> None:
    """Wait until a server answers. Raises AssertionError."""
    end = time.monotonic() + PATIENCE
    while not healthy(url):
        assert time.monotonic() < end, f"{url} does not answer"
        time.sleep(0.05)


def healthy(url: str) -> bool:
    """Whether a server says that it lives."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE) as response:
            return bool(response.status == 200)
    except (urllib.error.HTTPError, urllib.error.URLError, ConnectionError):
        return False
