"""One file on its way: what there is to do for it, until it is whole and right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Literal, TypeAlias

from geniex_catalogue.errors import GenieXError
from geniex_catalogue.hubs.asking import Asker, Span, wrong
from geniex_catalogue.hubs.job import Fetch, Fetched
from geniex_catalogue.hubs.keeper import Keeper
from geniex_catalogue.hubs.ledger import CELL, Block
from geniex_catalogue.hubs.line import Line
from geniex_catalogue.hubs.part import Part, StaleError
from geniex_catalogue.hubs.web import BrokenError, persist

Task: TypeAlias = Callable[[], None]


class Download:
    """Hands out what there is to do for one file; `fetched` once it is done.

    Several workers may claim tasks at the same time. A file's first answer is waited for before
    more is asked: it tells the version, and whether its server knows ranges.
    """

    def __init__(self, line: Line, job: Fetch) -> None:
        size = job.source.length if job.size is None else job.size
        self.fetched: Fetched | None = None
        self._line = line
        self._job = job
        self._part = Part(job.part, sha256=job.sha256, size=size, abandon=line.abandon)
        self._keeper = Keeper(self._part, job.name, line.relay, line.abandon)
        self._asker = Asker(line, job, self._part, self._keeper)
        self._state: Literal["new", "open", "busy", "done"] = "new"
        self._taken: list[Span] = []
        self._given_up: set[int] = set()
        self._stack = ExitStack()
        self._disk_checked = False
        self._doubts_checked = False
        self._compared = 0

    def claim(self) -> Task | None:
        """Something to do now, if there is anything."""
        with self._part.lock:
            if self._state == "new":
                self._state = "busy"
                return self._open
            if self._state != "open":
                return None
            taken = [span for span in self._taken if span.epoch == self._part.epoch]
            if taken and not self._asker.ranges:
                return None
            gaps = list(_without(self._part.missing(), taken))
            if gaps:
                span = self._span(*gaps[0])
                self._taken.append(span)
                return partial(self._fetch, span)
            if not taken:
                self._state = "busy"
                return self._finish
            return None

    def close(self) -> None:
        """Let go of the files."""
        self._stack.close()

    def is_first_failure(self, error: GenieXError) -> bool:
        """Whether others may try what failed so: the network, and not yet in the same place."""
        if not isinstance(error.__cause__, BrokenError):
            return False
        gaps = {first for first, _ in self._part.missing()}
        repeated = bool(gaps & self._given_up)
        self._given_up |= gaps
        return not repeated

    def _span(self, first: int, end: int | None) -> Span:
        if self._asker.ranges is not False:
            longest = first + self._line.span
            end = longest if end is None else min(end, longest)
        return Span(first, end, self._part.epoch)

    def _open(self) -> None:
        with self._line.abandon.unless_left():
            self._stack.enter_context(self._part)
        self._line.relay.start(self._job.name, self._part.size, self._part.arrived)
        self._stack.enter_context(self._keeper)
        self._become("open")

    def _become(self, state: Literal["open", "done"]) -> None:
        with self._part.lock:
            self._state = state
        self._line.tell()

    def _fetch(self, span: Span) -> None:
        def note(reason: str, wait: float) -> None:
            span.tries += 1
            self._line.relay.retry(self._job.name, reason, wait)

        try:
            persist(
                lambda: self._asker.ask(span),
                self._line.patience,
                sleep=self._line.abandon.pause,
                note=note,
                gained=lambda: span.position,
            )
        except StaleError:
            # another worker has begun the file anew
            return
        finally:
            with self._part.lock:
                self._taken.remove(span)
            self._line.tell()

    def _finish(self) -> None:
        """All bytes are here: compare the hash of the whole, and end or fetch some again."""
        digest, part = self._keeper.digest(), self._part
        if digest is None:
            self._become("open")
            return
        if part.sha256 not in (None, digest):
            if not self._drop_what_may_be_wrong():
                part.begin(None)
                self._line.relay.start(self._job.name, part.size, 0)
                raise wrong(self._job.name, f"its sha256 is {digest}, the hub states {part.sha256}")
            self._become("open")
            return
        with self._line.abandon.unless_left():
            part.settle()
        size = part.arrived
        self._stack.close()
        self._line.relay.finish(self._job.name)
        self.fetched = Fetched(self._job.name, self._job.part, size, digest)
        self._become("done")

    def _drop_what_may_be_wrong(self) -> bool:
        """Look at the bytes again since the whole is wrong; False if there is no more to try.

        First what the disk gives back is compared with what was written; then the bytes of answers
        that broke, of second tries, and of earlier processes are fetched again; then all others, a
        few spans at a time, until the hash is right.
        """
        part = self._part
        if not self._disk_checked:
            self._disk_checked = True
            if part.sums:
                part.reread()
                return True
        if not self._doubts_checked:
            self._doubts_checked = True
            doubtful = [block for block in part.blocks.values() if block.doubtful]
            if doubtful:
                return self._fetch_again(doubtful)
        first = self._compared
        self._compared += -(-self._line.span * self._line.width // CELL) * CELL
        rest = [it for it in part.blocks.values() if first <= it.first < self._compared]
        return bool(rest) and self._fetch_again(rest)

    def _fetch_again(self, blocks: list[Block]) -> bool:
        part = self._part
        count = sum(block.length for block in blocks)
        reason = f"its sha256 is wrong, {count} bytes of it come again"
        self._line.relay.retry(self._job.name, reason, 0.0)
        with part.lock:
            if count == part.size:
                part.begin(None)
                self._asker.ranges = None
            else:
                part.forget_sums(min(block.first for block in blocks) + 1)
                part.drop(blocks)
            self._line.relay.start(self._job.name, part.size, part.arrived)
        return True


def _without(
    gaps: Iterable[tuple[int, int | None]], taken: Iterable[Span]
) -> Iterable[tuple[int, int | None]]:
    """The gaps, less what others have taken of them; those begin where gaps began."""
    spans = sorted(taken, key=lambda span: span.first)
    for first, end in gaps:
        position: int | None = first
        for span in spans:
            if position is None or (span.end is not None and span.end <= position):
                continue
            if end is not None and span.first >= end:
                break
            if span.first > position:
                yield position, span.first
            position = span.end
        if position is not None and (end is None or position < end):
            yield position, end
