"""The one download engine: bytes by HTTP into a part, resumed, checked, and never half believed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from geniex_catalogue.errors import ChecksumError, TransferError
from geniex_catalogue.hubs.contract import Progress, Source
from geniex_catalogue.hubs.part import Part
from geniex_catalogue.hubs.web import (
    BrokenError,
    Patience,
    check,
    client,
    content_range,
    host,
    persist,
    refuse_pages,
    translated,
)
from geniex_catalogue.hubs.worker import Abandon, Relay, interruptible

if TYPE_CHECKING:
    import httpx2

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Fetch:
    """A file to fetch into `part`; `size` (bytes) and `sha256` are as the hub states them."""

    name: str
    source: Source
    part: Path
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that has arrived whole, with its true size in bytes and sha256."""

    name: str
    path: Path
    size: int
    sha256: str


def fetch(
    jobs: Sequence[Fetch], progress: Progress | None, patience: Patience | None = None
) -> tuple[Fetched, ...]:
    """Fetch files one after the other, going on from parts that are here.

    KeyboardInterrupt ends it at once and keeps what has arrived. Raises TransferError when a file
    does not arrive, ChecksumError when it is not what the hub states, a HubError when the hub
    refuses it, DiskSpaceError or StoreError when it cannot be written.
    """
    relay = Relay(progress)
    patience = patience or Patience()

    def work(abandon: Abandon) -> tuple[Fetched, ...]:
        with client(patience) as http:
            return tuple(_Download(http, job, relay, abandon, patience).run() for job in jobs)

    return interruptible(work, relay)


class _Download:
    """One file on its way."""

    def __init__(
        self,
        http: httpx2.Client,
        job: Fetch,
        relay: Relay,
        abandon: Abandon,
        patience: Patience,
    ) -> None:
        self.http = http
        self.job = job
        self.relay = relay
        self.abandon = abandon
        self.patience = patience
        self.size = job.source.length if job.size is None else job.size
        self.sha256 = job.sha256

    def run(self) -> Fetched:
        """Bring the file home."""
        with ExitStack() as stack:
            with self.abandon.unless_left():
                part = Part(self.job.part, sha256=self.job.sha256, size=self.job.size)
                self.part = stack.enter_context(part)
            self.part.rehash(self._turn)
            self.relay.start(self.job.name, self.size, self.part.position)
            self.pieces = 1 if self.part.position else 0
            digest = self._receive()
            if self.pieces > 1 and self.sha256 not in (None, digest):
                # pieced together wrongly: once more from the beginning
                self._again()
                digest = self._receive()
            if self.sha256 not in (None, digest):
                self._again()
                self._wrong(f"its sha256 is {digest}, the hub states {self.sha256}")
            self.relay.finish(self.job.name)
            return Fetched(self.job.name, self.job.part, self.part.position, digest)

    def _receive(self) -> str:
        """Take bytes until the file is whole, over as many answers as it needs; its sha256."""
        persist(
            self._ask,
            self.patience,
            sleep=self.abandon.pause,
            note=lambda reason, wait: self.relay.retry(self.job.name, reason, wait),
            gained=lambda: self.part.position,
        )
        return self.part.settle()

    def _ask(self) -> None:
        """One request for all that is missing."""
        if self.part.position and self.part.position == self.size:
            return
        source = self.job.source
        headers = {**source.headers, **self._resume_headers()}
        with translated(source.url), self.http.stream("GET", source.url, headers=headers) as answer:
            if answer.status_code == 416 and self.part.position:
                self._again()
                self._broke(f"`{host(source.url)}` does not have the rest of the file")
            check(answer, self.job.name)
            refuse_pages(answer, self.job.name)
            self._take_up(answer)
            self.pieces += 1
            for data in self._within(answer):
                self._keep(data)
        if self.size is not None and self.part.position < self.size:
            self._broke(f"the answer ended after {self.part.position} of {self.size} bytes")

    def _within(self, answer: httpx2.Response) -> Iterator[bytes]:
        """The answer's bytes; of an answer that ignores the range, those in the source's window."""
        skip = self.job.source.first if answer.status_code == 200 else 0
        length = self.job.source.length
        for data in answer.iter_raw():
            piece, skip = data[skip:], max(0, skip - len(data))
            if length is not None and self.part.position + len(piece) >= length:
                yield piece[: length - self.part.position]
                return
            yield piece

    def _resume_headers(self) -> dict[str, str]:
        source, end = self.job.source, ""
        if source.length is not None:
            end = str(source.first + source.length - 1)
        if source.is_window and not self.part.position:
            return {"Range": f"bytes={source.first}-{end}"}
        if not self.part.position or (self.part.etag is None and self.sha256 is None):
            # with neither, nothing could tell the rest of this file from the rest of another
            return {}
        headers = {"Range": f"bytes={source.first + self.part.position}-{end}"}
        return {**headers, "If-Range": self.part.etag} if self.part.etag else headers

    def _take_up(self, answer: httpx2.Response) -> None:
        """Go on at the part's end if the answer is the rest of the same file, else begin anew."""
        self._learn(answer)
        etag = _strong_etag(answer.headers)
        source = self.job.source
        if answer.status_code == 206 and (self.part.position or source.is_window):
            start, total = content_range(answer.headers)
            if self.part.etag not in (None, etag) and etag is not None:
                self._again()
                self._broke("the file has changed on the hub")
            other = total not in (None, self.size) and not source.is_window
            if start != source.first + self.part.position or other:
                self._again()
                self._broke(f"`{host(str(answer.url))}` sent another range than asked for")
            if not self.part.position:
                with self.abandon.unless_left():
                    self.part.begin(etag)
            return
        if answer.status_code != 200:
            raise TransferError(f"`{host(str(answer.url))}` answered {answer.status_code}")
        if self.part.position:
            self.relay.start(self.job.name, self.size, 0)
        with self.abandon.unless_left():
            self.part.begin(etag)

    def _learn(self, answer: httpx2.Response) -> None:
        """Take size and sha256 from the answer where the listing has none; refuse another size."""
        if self.job.source.is_window:
            return
        total = _total(answer)
        linked = (answer.history[0] if answer.history else answer).headers
        stated = linked.get("x-linked-etag", "").strip('"')
        if self.sha256 is None and _SHA256.fullmatch(stated):
            self.sha256 = stated
        if self.size is None:
            size = linked.get("x-linked-size", "")
            self.size = int(size) if size.isdecimal() and int(size) else total
            self.part.size = self.size
        if answer.status_code == 200 and total not in (None, self.size):
            self._wrong(f"it has {total} bytes, the hub states {self.size}")

    def _keep(self, data: bytes) -> None:
        if self.size is not None and self.part.position + len(data) > self.size:
            self._again()
            self._wrong(f"it has more than the {self.size} bytes that the hub states")
        with self.abandon.unless_left():
            self.part.append(data)
        self.relay.advance(self.job.name, len(data))

    def _turn(self) -> None:
        with self.abandon.unless_left():
            return

    def _again(self) -> None:
        """Drop the bytes that are here: they are of no use."""
        with self.abandon.unless_left():
            self.part.begin(None)
        self.relay.start(self.job.name, self.size, 0)

    def _broke(self, reason: str) -> NoReturn:
        hint = "run the same command again: it goes on where it stopped"
        raise BrokenError(reason, TransferError(f"`{self.job.name}`: {reason}", hint=hint))

    def _wrong(self, reason: str) -> NoReturn:
        hint = "run the same command again; if it stays so, the hub or a proxy is at fault"
        raise ChecksumError(f"`{self.job.name}` arrived wrong: {reason}", hint=hint)


def _total(answer: httpx2.Response) -> int | None:
    """The whole file's bytes by an answer's own headers, where they say it."""
    if answer.status_code == 206:
        return content_range(answer.headers)[1]
    length = answer.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def _strong_etag(headers: Mapping[str, str]) -> str | None:
    """The entity tag, if it names exact bytes."""
    etag = headers.get("etag", "")
    return etag if etag and not etag.startswith("W/") else None
