"""What an answer says of the bytes that it brings: whose they are, and where they begin."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from geniex_catalogue.errors import TransferError
from geniex_catalogue.hubs.web import BrokenError, Patience, content_range, host

if TYPE_CHECKING:
    import httpx2

_SHA256 = re.compile(r"[0-9a-f]{64}")
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


def flow(answer: httpx2.Response, patience: Patience) -> Iterator[bytes]:
    """The bytes as they come. Raises BrokenError when they only trickle."""
    begin, count = time.monotonic(), 0
    for data in answer.iter_raw():
        yield data
        count += len(data)
        passed = time.monotonic() - begin
        if passed > patience.stall:
            if count < patience.slowest * passed:
                reason = f"`{host(str(answer.url))}` sends almost nothing"
                raise BrokenError(reason, TransferError(reason, hint=_HINT))
            begin, count = time.monotonic(), 0
