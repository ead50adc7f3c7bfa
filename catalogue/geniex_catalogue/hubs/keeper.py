"""Follows a part while it fills up: hashes it in order, keeps its ledger, tells the progress."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Self

from geniex_catalogue.hubs.part import Part
from geniex_catalogue.hubs.worker import Abandon, AbandonedError, Relay

if TYPE_CHECKING:
    from hashlib import _Hash
    from types import TracebackType

    from geniex_catalogue.hubs.ledger import Block

_PIECE = 1 << 20
# bytes that are hashed between two looks at the ledger
_TURN = 32 << 20
_TICK = 0.02
# the ledger gets small growths after so many seconds
_PATIENT_NOTES = 1.0
# states of the hash are kept so many bytes apart, to go back to when bytes are fetched again
_CHECKPOINT = 64 << 20


class Keeper:
    """A thread for one part. A context manager: it runs for as long as the block.

    It hashes behind the writers, so that the bytes are still in memory when it reads them, and the
    hash is there as soon as the last byte is. Bytes of an earlier process are compared with their
    CRC on the way, and dropped from the part where they are not what was written.
    """

    def __init__(self, part: Part, name: str, relay: Relay, abandon: Abandon) -> None:
        self._part = part
        self._name = name
        self._relay = relay
        self._abandon = abandon
        self._states: list[tuple[int, _Hash]] = []
        self._position = 0
        self._hash = hashlib.sha256()
        self._block: Block | None = None
        self._buffer = memoryview(bytearray(_PIECE))
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._noted = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="geniex-hub-hash", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if not self._abandon.is_left and self._error is None:
            self._part.note(all_of_it=True)
        self._tell()

    def check(self) -> None:
        """Raise what stopped the thread, if anything did: StoreError, DiskSpaceError."""
        if self._error is not None:
            raise self._error

    def digest(self) -> str | None:
        """Wait for the sha256 of the whole; None if bytes are missing (again)."""
        while True:
            self.check()
            with self._part.lock:
                if self._part.missing():
                    return None
                if self._part.touched is None and self._position == self._part.size:
                    return self._hash.hexdigest()
                self._part.lock.wait(_TICK)
            self._turn()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                hashed = self._follow()
                late = time.monotonic() - self._noted > _PATIENT_NOTES
                self._turn()
                self._part.note(all_of_it=late)
                if late:
                    self._noted = time.monotonic()
                self._tell()
                if not hashed:
                    self._ended.wait(_TICK)
        except AbandonedError:
            return
        except Exception as exc:
            self._error = exc

    def _tell(self) -> None:
        with self._part.lock:
            fresh, self._part.fresh = self._part.fresh, 0
            if fresh:
                self._relay.advance(self._name, fresh)

    def _turn(self) -> None:
        with self._abandon.unless_left():
            return

    def _follow(self) -> int:
        """Hash what is here at the position, up to a turn's worth; how many bytes."""
        done = 0
        while done < _TURN:
            with self._part.lock:
                self._go_back()
                block = self._block_here()
            if block is None or not self._is_good(block):
                break
            count = self._part.read(block, self._position, self._buffer)
            if not count:
                break
            self._hash.update(self._buffer[:count])
            self._position += count
            done += count
            self._turn()
        if done:
            with self._part.lock:
                self._go_back()
                self._part.lock.notify_all()
        return done

    def _go_back(self) -> None:
        """Forget the hash of bytes that were dropped."""
        touched, self._part.touched = self._part.touched, None
        if touched is None or touched >= self._position:
            return
        while self._states and self._states[-1][0] > touched:
            self._states.pop()
        self._block = None
        if self._states:
            self._position, kept = self._states[-1]
            self._hash = kept.copy()
        else:
            self._position, self._hash = 0, hashlib.sha256()

    def _block_here(self) -> Block | None:
        """The block that has the byte at the position, or will have it."""
        if self._block is not None and self._position < self._block.end:
            return self._block
        following = self._part.blocks.get(self._position)
        if following is None:
            # the last one may still grow
            return self._block
        self._block = following
        last = self._states[-1][0] if self._states else 0
        if self._position - last >= _CHECKPOINT:
            self._states.append((self._position, self._hash.copy()))
        return following

    def _is_good(self, block: Block) -> bool:
        """Whether an earlier process's block is what it wrote; what is not is dropped."""
        if not block.unread:
            return True
        if self._part.is_as_written(block, self._turn):
            block.unread = False
            return True
        with self._part.lock:
            self._part.drop([block])
            self._block = None
            self._relay.start(self._name, self._part.size, self._part.arrived)
        return False
