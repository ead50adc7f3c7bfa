"""Asking for a span of a file, and making sure that what comes is that span of that file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from geniex_catalogue.errors import ChecksumError
from geniex_catalogue.hubs.answer import broken, flow, linked_facts, strong_etag, total
from geniex_catalogue.hubs.job import Fetch
from geniex_catalogue.hubs.keeper import Keeper
from geniex_catalogue.hubs.line import Line
from geniex_catalogue.hubs.part import Part, Writer
from geniex_catalogue.hubs.web import (
    BrokenError,
    check,
    content_range,
    host,
    is_page,
    page_instead,
    refuse_pages,
    translated,
)

if TYPE_CHECKING:
    import httpx2


@dataclass(slots=True)
class Span:
    """Bytes of a file that one worker asks for: from `first` to before `end` (None: not known).

    `position` is the next byte to come, `tries` how often it failed.
    """

    first: int
    end: int | None
    epoch: int
    position: int = 0
    tries: int = 0

    def __post_init__(self) -> None:
        self.position = self.first


class Asker:
    """Asks for the spans of one file.

    `ranges`: whether its server has given a range that was asked for; None until one was.
    """

    def __init__(self, line: Line, job: Fetch, part: Part, keeper: Keeper) -> None:
        self.ranges: bool | None = None
        self._line = line
        self._job = job
        self._part = part
        self._keeper = keeper
        self._address: str | None = None

    def ask(self, span: Span) -> None:
        """Have the rest of a span. Raises BrokenError, TransferError, HubError, StaleError."""
        if span.position and not self._part.is_trusted:
            # nothing could tell the rest of this file from the rest of another
            self._again(span)
        while span.end is None or span.position < span.end:
            before = span.position
            try:
                self._have(span)
            except BrokenError as exc:
                # a signed address may have expired
                self._address = None
                if exc.retry_after:
                    self._line.hold(exc.retry_after)
                raise
            if span.end is None:
                # the end of the answer is the end of the file: nothing else tells it
                self._part.size = span.end = span.position
            elif span.position < span.end:
                reason = f"the answer ended after {span.position} of {span.end} bytes"
                raise broken(self._job.name, reason, 0.0 if span.position > before else None)

    def _have(self, span: Span) -> None:
        """One request for the rest of a span."""
        self._line.wait_turn()
        url = self._address or self._job.source.url
        # what the hub sends us on to gets none of its headers
        own = {} if self._address else self._job.source.headers
        ranged = self._range_headers(span)
        with (
            translated(url),
            self._line.http.stream("GET", url, headers={**own, **ranged}) as answer,
        ):
            self._check(answer, span)
            if answer.status_code == 206 and ranged:
                self._take_range(answer, span)
                offset = span.position
            elif answer.status_code == 200:
                self._take_whole(answer, span, ranged=bool(ranged))
                offset = -self._job.source.first
            else:
                place = host(str(answer.url))
                raise broken(self._job.name, f"`{place}` answered {answer.status_code}")
            if answer.history and _origin(str(answer.url)) != _origin(self._job.source.url):
                self._address = str(answer.url)
            self._line.tell()
            self._copy(answer, span, offset)

    def _range_headers(self, span: Span) -> dict[str, str]:
        source, part = self._job.source, self._part
        if not source.is_window:
            if self.ranges is False:
                return {}
            if span.position == 0 and part.size is not None and span.end == part.size:
                return {}
        last = "" if span.end is None else str(source.first + span.end - 1)
        headers = {"Range": f"bytes={source.first + span.position}-{last}"}
        return {**headers, "If-Range": part.etag} if part.etag else headers

    def _check(self, answer: httpx2.Response, span: Span) -> None:
        place = host(str(answer.url))
        if answer.status_code == 416:
            if not span.position and self._part.size is None:
                # an empty file has no ranges
                self.ranges = False
                raise broken(self._job.name, f"`{place}` has no such range", 0.0)
            if self._part.sha256 is None and not self._job.source.is_window:
                self._again(span)
            raise broken(self._job.name, f"`{place}` does not have the rest of the file")
        if self._address and 400 <= answer.status_code < 500 and answer.status_code != 429:
            raise broken(self._job.name, f"`{place}` answered {answer.status_code}")
        check(answer, self._job.name)
        refuse_pages(answer, self._job.name)

    def _take_range(self, answer: httpx2.Response, span: Span) -> None:
        """Make sure that the answer is the range that was asked for, of the file that we have."""
        part, source = self._part, self._job.source
        etag = strong_etag(answer.headers)
        first, whole = content_range(answer.headers)
        other = not source.is_window and part.size is not None and whole not in (None, part.size)
        changed = etag is not None and part.etag not in (None, etag)
        if changed or (other and part.sha256 is None):
            self._again(span)
            raise broken(self._job.name, "the file has changed on the hub")
        if other:
            # perhaps a proxy's error: asked once more before it is believed
            reason = f"it has {whole} bytes, the hub states {part.size}"
            raise BrokenError(reason, wrong(self._job.name, reason))
        if first != source.first + span.position:
            place = host(str(answer.url))
            raise broken(self._job.name, f"`{place}` sent another range than asked for")
        self._learn(answer, etag)
        if part.size is None or (not part.is_trusted and span.end != part.size):
            # the rest could not be told from the rest of another file
            self.ranges = False
            raise broken(self._job.name, f"`{host(str(answer.url))}` does not name its ranges", 0.0)
        span.end = min(span.end or part.size, part.size)
        self.ranges = True

    def _take_whole(self, answer: httpx2.Response, span: Span, *, ranged: bool) -> None:
        """Take an answer that begins with the first byte: go on where we are, or begin anew."""
        part = self._part
        etag, whole = strong_etag(answer.headers), total(answer)
        changed = etag is not None and part.etag not in (None, etag)
        if changed and self._job.size is None:
            part.size = None
        if not self._job.source.is_window and None not in (whole, part.size) and whole != part.size:
            # nothing of it is written; without a hash, what is here may be of another version
            if part.sha256 is None:
                self._again(span)
            self._wrong(f"it has {whole} bytes, the hub states {part.size}")
        if ranged and self.ranges:
            if changed:
                self._again(span)
                raise broken(self._job.name, "the file has changed on the hub")
            raise broken(self._job.name, f"`{host(str(answer.url))}` ignored the range")
        if ranged:
            self.ranges = False
        gaps = part.missing()
        if part.arrived and (changed or len(gaps) > 1 or not part.is_trusted):
            self._again(span)
        if not part.arrived:
            part.begin(etag)
            span.epoch = part.epoch
        self._learn(answer, etag)
        span.end = part.size

    def _learn(self, answer: httpx2.Response, etag: str | None) -> None:
        """Take size, sha256 and etag from the answer where we have none."""
        part = self._part
        before = part.size, part.sha256, part.etag
        if not self._job.source.is_window:
            size, sha256 = linked_facts(answer)
            part.sha256 = part.sha256 or sha256
            if part.size is None:
                part.size = size or total(answer)
        if before != (part.size, part.sha256, part.etag or etag):
            part.learn(etag)
        if before[0] is None and part.size is not None:
            self._line.relay.start(self._job.name, part.size, part.arrived)

    def _copy(self, answer: httpx2.Response, span: Span, offset: int) -> None:
        """Write what the answer brings of the span; `offset` is where its body lies in the file."""
        open_end = answer.status_code == 200 and not self._job.source.is_window
        with Writer(self._part, span.position, epoch=span.epoch, doubtful=span.tries > 0) as writer:
            for data in flow(answer, self._line.patience, self._line.narrow):
                self._keeper.check()
                skipped = span.position - offset
                offset += len(data)
                if open_end and self._part.size is not None and offset > self._part.size:
                    size = self._part.size
                    self._again(span)
                    self._wrong(f"it has more than the {size} bytes that the hub states")
                if offset <= span.position:
                    continue
                if span.position == 0 and is_page(bytes(data[:100])):
                    self._unlearn(span)
                    raise page_instead(host(str(answer.url)), self._job.name)
                if span.end is not None and span.position >= span.end:
                    return
                end = len(data) if span.end is None else skipped + span.end - span.position
                writer.write(data[skipped:end])
                span.position = writer.position

    def _unlearn(self, span: Span) -> None:
        """Forget what an answer has told of the file, where it was the only one and of no file."""
        if not self._part.arrived:
            if self._job.size is None:
                self._part.size = None
            self._again(span)

    def _again(self, span: Span) -> None:
        """Drop the bytes that are here: they are of no use."""
        with self._part.lock:
            self._part.begin(None)
            size = self._part.size
            span.first = span.position = 0
            span.epoch = self._part.epoch
            span.end = self._line.span if size is None else min(self._line.span, size)
            if self.ranges:
                self.ranges = None
            self._line.relay.start(self._job.name, size, 0)

    def _wrong(self, reason: str) -> NoReturn:
        """It may be a proxy's error: asked again before it is believed."""
        raise BrokenError(reason, wrong(self._job.name, reason))


def wrong(name: str, reason: str) -> ChecksumError:
    """The error for bytes that are not what the hub states."""
    hint = "run the same command again; if it stays so, the hub or a proxy is at fault"
    return ChecksumError(f"`{name}` arrived wrong: {reason}", hint=hint)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
