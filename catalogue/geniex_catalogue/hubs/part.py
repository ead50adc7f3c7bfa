"""The part of a file that has arrived: bytes on disk, in any order, and a ledger of them beside."""

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from geniex_catalogue.durable import FULL
from geniex_catalogue.errors import DiskSpaceError, GenieXError, StoreError
from geniex_catalogue.hubs.ledger import CELL, Block, Entries, Ledger, Version
from geniex_catalogue.hubs.worker import Abandon

# what is added to a file's name: for its part, and for what is known of the part
ENDING = ".partial"
FACTS_ENDING = f"{ENDING}.json"
# a block is noted again once it has grown by so much: when there is time for it, and at once
_NOTED = 64 << 10
_NOTED_AT_ONCE = 1 << 20
# disks are slow to begin: after so many bytes of one writer, they are sent to the disk
_SYNCED = 16 << 20
# beyond any byte
_EVER = 1 << 63


class StaleError(Exception):
    """Raised inside for bytes of a version that was dropped meanwhile; no user meets it."""


class Part:
    """A file that fills up, several writers at once.

    `blocks` are the runs of bytes that are here, by their first byte; none lies over another.
    `sums` are hashes of all bytes before a position, as they were once. `etag` is the version that
    the bytes are of, as the server named it. `epoch` counts how often all bytes were dropped.
    `touched` is where bytes were dropped since it was last set to None: the first of them, and the
    one after the last. `fresh` is how many bytes have arrived since it was last set to 0.
    Guard what is read of several attributes with `lock`.
    """

    def __init__(
        self, path: Path, *, sha256: str | None, size: int | None, abandon: Abandon | None = None
    ) -> None:
        self.path = path
        self.sha256 = sha256
        self.size = size
        self.etag: str | None = None
        self.blocks: dict[int, Block] = {}
        self.sums: dict[int, str] = {}
        self.epoch = 0
        self.touched: tuple[int, int] | None = None
        self.fresh = 0
        self.lock = threading.Condition()
        self._abandon = abandon or Abandon()
        self._ledger = Ledger(facts_path(path))
        self._reading = threading.Lock()
        # what the ledger does not have yet
        self._grown: dict[int, Block] = {}
        self._new_sums: dict[int, str] = {}
        self._writing = 0
        self._closed = False

    @property
    def arrived(self) -> int:
        """How many bytes are here."""
        with self.lock:
            return sum(block.length for block in self.blocks.values())

    @property
    def is_trusted(self) -> bool:
        """Whether anything could tell the rest of this file from the rest of another."""
        return self.etag is not None or self.sha256 is not None

    def __enter__(self) -> Self:
        """Open or make the file; bytes of another version are dropped. Raises StoreError."""
        with ExitStack() as opened, self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = "r+b" if self.path.exists() else "x+b"
            # unbuffered: nothing may be written any more once the caller has left
            self._file = opened.enter_context(self.path.open(mode, buffering=0))
            self._reader = opened.enter_context(self.path.open("rb", buffering=0))
            self._take_up(self._file.seek(0, os.SEEK_END))
            opened.pop_all()
        self._abandon.at_leaving(self._leave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        with self.lock:
            self._closed = True
            self._file.close()
            self._reader.close()

    def _leave(self) -> None:
        """Note what has arrived, as the last thing; a disk that refuses it now is not asked."""
        # a thread that hangs in a write of its own is not waited for
        held = self.lock.acquire(timeout=0.5)
        try:
            if held:
                self.note(all_of_it=True)
        except GenieXError:
            return
        finally:
            self._closed = True
            if held:
                self.lock.release()

    def _take_up(self, length: int) -> None:
        """Go on from what the ledger says of a file of that length, or begin anew."""
        entries = self._ledger.read(length)
        if entries is None or not _belongs(entries, self.sha256, self.size):
            self._ledger.clear()
            if length:
                self._file.truncate(0)
            entries = Entries(Version(None, self.sha256, self.size))
        self.etag = entries.version.etag
        self.blocks = {block.first: block for block in entries.blocks}
        self.sums = entries.sums
        self._rewrite()

    def _rewrite(self) -> None:
        version = Version(self.etag, self.sha256, self.size)
        self._ledger.rewrite(Entries(version, list(self.blocks.values()), self.sums))
        self._grown.clear()
        self._new_sums.clear()

    def missing(self) -> list[tuple[int, int | None]]:
        """The gaps: first byte and the byte after the last, None where the end is not known."""
        gaps: list[tuple[int, int | None]] = []
        with self.lock:
            position = 0
            for first in sorted(self.blocks):
                if first > position:
                    gaps.append((position, first))
                position = self.blocks[first].end
            if self.size is None or position < self.size:
                gaps.append((position, self.size))
        return gaps

    def begin(self, etag: str | None) -> None:
        """Drop the bytes that are here and note the version of those that come."""
        with self._abandon.unless_left(), self.lock, self._told():
            self.epoch += 1
            self.lock.wait_for(lambda: not self._writing)
            # in this order: whenever it is killed, no bytes count as another version's
            self._ledger.clear()
            if self.blocks:
                self._file.truncate(0)
            self.blocks.clear()
            self.sums.clear()
            self.etag, self.fresh = etag, 0
            self._touch(0, _EVER)
            self._rewrite()

    def learn(self, etag: str | None) -> None:
        """Note what an answer has told of the version: its etag, the size and hash set before."""
        with self._abandon.unless_left(), self.lock, self._told():
            self.etag = etag or self.etag
            self._rewrite()

    def drop(self, blocks: Iterable[Block]) -> None:
        """Drop some of the bytes, to be fetched again; `sums` stay, for what was right before."""
        with self._abandon.unless_left(), self.lock, self._told():
            for block in blocks:
                if self.blocks.pop(block.first, None) is not None:
                    self._touch(block.first, block.end)
            self._rewrite()

    def _touch(self, first: int, end: int) -> None:
        low, high = self.touched or (first, end)
        self.touched = min(first, low), max(end, high)

    def reread(self) -> None:
        """Have all bytes read and hashed once more."""
        with self.lock:
            self._touch(0, _EVER)

    def add_sum(self, position: int, digest: str) -> None:
        """Note the hash of all bytes before a position."""
        with self.lock:
            self.sums[position] = self._new_sums[position] = digest

    def forget_sums(self, position: int) -> None:
        """Forget the hashes from a position on: they were of other bytes."""
        with self.lock, self._told():
            self.sums = {at: digest for at, digest in self.sums.items() if at < position}
            self._rewrite()

    def note(self, *, all_of_it: bool = False) -> None:
        """Write into the ledger what has arrived since; without `all_of_it`, what is much."""
        with self.lock, self._told():
            if self._closed:
                return
            least = 1 if all_of_it else _NOTED
            self._note([it for it in self._grown.values() if it.length - it.noted >= least])

    def _note(self, blocks: list[Block]) -> None:
        is_long = self._ledger.note(blocks, self._new_sums)
        self._new_sums.clear()
        for block in blocks:
            if block.noted == block.length:
                self._grown.pop(block.first, None)
        if is_long:
            self._rewrite()

    @contextmanager
    def turn(self, epoch: int) -> Iterator[None]:
        """Guard one write of bytes of an epoch. Raises StaleError, AbandonedError."""
        with self._abandon.unless_left(), self._told():
            with self.lock:
                if epoch != self.epoch:
                    raise StaleError
                self._writing += 1
            try:
                yield
            finally:
                with self.lock:
                    self._writing -= 1
                    self.lock.notify_all()

    def grow(self, block: Block, epoch: int, count: int) -> None:
        """Count bytes that were written at a block's end. Raises StaleError."""
        with self.lock, self._told():
            if epoch != self.epoch or self._closed:
                raise StaleError
            self.blocks[block.first] = block
            block.length += count
            self._grown[block.first] = block
            self.fresh += count
            if block.length - block.noted >= _NOTED_AT_ONCE:
                self._note([block])

    def read(self, block: Block, begin: int, buffer: memoryview) -> int:
        """Read bytes of a block from `begin` on; 0 at its end."""
        with self._reading, self._told():
            self._reader.seek(begin)
            return self._reader.readinto(buffer[: min(len(buffer), block.end - begin)]) or 0

    def sync(self, handle: int) -> None:
        """Bring what has been written to the disk while more is arriving."""
        with self._told():
            getattr(os, "fdatasync", os.fsync)(handle)

    def settle(self) -> None:
        """Bring the bytes to the disk, and nothing after them."""
        with self._told():
            if self.size is not None and os.fstat(self._file.fileno()).st_size > self.size:
                self._file.truncate(self.size)
            os.fsync(self._file.fileno())
        self.note(all_of_it=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise self._failure(exc) from exc

    def _failure(self, exc: OSError) -> GenieXError:
        folder = self.path.parent
        if exc.errno in FULL:
            arrived = self.arrived
            needed = (self.size or arrived) - arrived
            return DiskSpaceError(str(folder), needed, shutil.disk_usage(folder).free)
        return StoreError(f"`{self.path}` cannot be written: {exc.strerror or exc}")


class Writer:
    """Writes bytes into a part from one place on; of one thread. A context manager."""

    def __init__(self, part: Part, first: int, *, epoch: int, doubtful: bool = False) -> None:
        self.position = first
        self._part = part
        self._epoch = epoch
        self._doubtful = doubtful
        self._blocks: list[Block] = []

    def __enter__(self) -> Self:
        with self._part.turn(self._epoch):
            # closed by __exit__; a place of its own in the file for each writer
            self._file = self._part.path.open("r+b", buffering=0)
            self._file.seek(self.position)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        if exc is None and sum(block.length for block in self._blocks) >= _SYNCED:
            self._part.sync(self._file.fileno())
        self._file.close()
        if exc is not None:
            # an answer that broke may have been wrong before
            for block in self._blocks:
                block.doubtful = True

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes at the position. Raises DiskSpaceError as soon as the disk is full."""
        rest = memoryview(data)
        while rest:
            if not self._blocks or self.position % CELL == 0:
                self._blocks.append(Block(self.position, doubtful=self._doubtful))
            with self._part.turn(self._epoch):
                written = self._file.write(rest[: CELL - self.position % CELL])
            self._part.grow(self._blocks[-1], self._epoch, written)
            self.position += written
            rest = rest[written:]


def facts_path(part: Path) -> Path:
    """Where it is noted which bytes of a part are here."""
    return part.with_name(part.name.removesuffix(ENDING) + FACTS_ENDING)


def arrived(part: Path) -> int:
    """How many bytes of a file its part has; its length on disk says only where the last one is."""
    entries = _entries(part)
    return sum(block.length for block in entries.blocks) if entries else 0


def usable(part: Path, sha256: str | None, size: int | None) -> int:
    """How many bytes a part has of the file that the hub states, and not of another version."""
    entries = _entries(part)
    return arrived(part) if entries and _belongs(entries, sha256, size) else 0


def _entries(part: Path) -> Entries | None:
    try:
        length = part.stat().st_size
    except OSError:
        return None
    return Ledger(facts_path(part)).read(length)


def _belongs(entries: Entries, sha256: str | None, size: int | None) -> bool:
    """Whether a part's bytes are of the file that the hub states."""
    version, blocks = entries.version, entries.blocks
    if size is not None and blocks and blocks[-1].end > size:
        return False
    if sha256 is not None and version.sha256 is not None:
        return version.sha256 == sha256
    return isinstance(version.etag, str) and size in (None, version.size)
