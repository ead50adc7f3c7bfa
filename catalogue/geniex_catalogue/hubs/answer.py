"""What an answer says of the bytes that it brings: whose they are, and where they begin."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from geniex_catalogue.errors import TransferError
from geniex_catalogue.hubs.web import BrokenError, Patience, content_range, host

if TYPE_CHECKING:
    import httpx2

Piece = TypeVar("Piece", bytes, bytes | memoryview)

_SHA256 = re.compile(r"[0-9a-f]{64}")
# a connection is fast with so many bytes a second; it is looked at after so many bytes
_FAST = 100e6
_TRIAL = 1 << 20
_PIECE = 1 << 20
_HINT = "run the same command again: it goes on where it stopped"


def broken(name: str, reason: str, retry_after: float | None = None) -> BrokenError:
    """A failure of a file's transfer that is worth another try."""
    return BrokenError(reason, TransferError(f"`{name}`: {reason}", hint=_HINT), retry_after)


def total(answer: httpx2.Response) -> int | None:
    """The whole file's bytes by an answer's own headers, where they say it."""
    if answer.status_code == 206:
        return content_range(answer.headers)[1]
    length = answer.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """The entity tag, if it names exact bytes."""
    etag = headers.get("etag", "")
    return etag if etag and not etag.startswith("W/") else None


def linked_facts(answer: httpx2.Response) -> tuple[int | None, str | None]:
    """Size and sha256 as the Hugging Face hub states them before it sends to its CDN."""
    linked = (answer.history[0] if answer.history else answer).headers
    size = linked.get("x-linked-size", "")
    sha256 = linked.get("x-linked-etag", "").strip('"')
    return (
        int(size) if size.isdecimal() and int(size) else None,
        sha256 if _SHA256.fullmatch(sha256) else None,
    )


def flow(
    answer: httpx2.Response, patience: Patience, on_fast: Callable[[], None]
) -> Iterator[bytes | memoryview]:
    """The bytes as they come, each piece good until the next. Raises BrokenError for a trickle."""
    return steady(answer, _pieces(answer, on_fast), patience)


def steady(answer: httpx2.Response, pieces: Iterable[Piece], patience: Patience) -> Iterator[Piece]:
    """The pieces of an answer. Raises BrokenError where it becomes a trickle."""
    begin, count = time.monotonic(), 0
    for data in pieces:
        yield data
        count += len(data)
        passed = time.monotonic() - begin
        if passed > patience.stall:
            if count < patience.slowest * passed:
                raise _gone(answer, "sends almost nothing")
            begin, count = time.monotonic(), 0


def _pieces(answer: httpx2.Response, on_fast: Callable[[], None]) -> Iterator[bytes | memoryview]:
    """As `iter_raw`; what comes fast on a bare connection is read from the socket itself.

    The HTTP library copies each byte several times in small pieces, which costs more than all the
    rest. It keeps nothing back between its pieces, so after any of them the rest of a body of known
    length can be read without it. The connection is of no further use then.
    """
    length = answer.headers.get("content-length", "")
    left = int(length) if length.isdecimal() and "transfer-encoding" not in answer.headers else 0
    begin, count = time.monotonic(), 0
    for data in answer.iter_raw():
        yield data
        count += len(data)
        if count >= _TRIAL and left - count > _TRIAL:
            if time.monotonic() - begin < count / _FAST:
                on_fast()
                bare = _bare_socket(answer)
                if bare is not None:
                    yield from _read_out(answer, bare, left - count)
                    return
            begin, left, count = time.monotonic(), left - count, 0


def _bare_socket(answer: httpx2.Response) -> socket.socket | None:
    """The socket of an answer, where nothing lies between it and the bytes."""
    stream = answer.extensions.get("network_stream")
    if stream is None or stream.get_extra_info("ssl_object") is not None:
        return None
    found = stream.get_extra_info("socket")
    return found if type(found) is socket.socket else None


def _read_out(answer: httpx2.Response, source: socket.socket, left: int) -> Iterator[memoryview]:
    """The next `left` bytes of a socket, whose timeout stands."""
    buffer = memoryview(bytearray(_PIECE))
    while left:
        try:
            count = source.recv_into(buffer[: min(left, _PIECE)])
        except TimeoutError as exc:
            raise _gone(answer, "sends nothing") from exc
        except OSError as exc:
            raise _gone(answer, "broke the connection") from exc
        if not count:
            raise _gone(answer, "broke the connection")
        left -= count
        yield buffer[:count]


def _gone(answer: httpx2.Response, what: str) -> BrokenError:
    reason = f"`{host(str(answer.url))}` {what}"
    return BrokenError(reason, TransferError(reason, hint=_HINT))
