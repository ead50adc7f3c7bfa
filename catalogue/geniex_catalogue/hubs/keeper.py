"""Follows a part while it fills up: hashes it in order, keeps its ledger, tells the progress."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Self

from geniex_catalogue.hubs.ledger import CELL, Block
from geniex_catalogue.hubs.part import Part
from geniex_catalogue.hubs.worker import Abandon, AbandonedError, Relay

if TYPE_CHECKING:
    from hashlib import _Hash
    from types import TracebackType

_PIECE = 1 << 20
# bytes that are hashed between two looks at the ledger
_TURN = 32 << 20
_TICK = 0.02
# the ledger gets small growths after so many seconds
_PATIENT_NOTES = 1.0


class Keeper:
    """A thread for one part. A context manager: it runs for as long as the block.

    It hashes behind the writers, so that the bytes are still in memory when it reads them, and the
    hash is there as soon as the last byte is. At each border of a cell the hash so far is noted;
    where it is noted already, by an earlier process, the cell is dropped if it is another one now.
    """

    def __init__(self, part: Part, name: str, relay: Relay, abandon: Abandon) -> None:
        self._part = part
        self._name = name
        self._relay = relay
        self._abandon = abandon
        # the hash at the borders passed, to go back to when bytes are fetched again
        self._states: list[tuple[int, _Hash]] = []
        self._before: dict[int, _Hash] = {}
        self._dropped: set[int] = set()
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
            count = self._part.read(block, self._position, self._buffer) if block else 0
            if not count:
                break
            self._hash.update(self._buffer[:count])
            self._position += count
            done += count
            if self._position % CELL == 0 or self._position == self._part.size:
                self._pass_border()
            self._turn()
        if done:
            with self._part.lock:
                self._part.lock.notify_all()
        return done

    def _go_back(self) -> None:
        """Forget the hash of bytes that were dropped."""
        touched, self._part.touched = self._part.touched, None
        if touched is None:
            return
        low, high = touched
        before, self._before = self._before, {}
        if low >= self._position:
            return
        known = {**dict(self._states), self._position: self._hash}
        if not before:
            # what followed may be the same once the dropped bytes are here again
            self._before = {at: state for at, state in known.items() if at >= high}
        self._states = [(at, state) for at, state in self._states if at <= low]
        self._block = None
        self._position, kept = self._states[-1] if self._states else (0, hashlib.sha256())
        self._hash = kept.copy()

    def _go_on(self, digest: str) -> None:
        """Skip what is hashed already, if the dropped bytes came again as they were."""
        before, self._before = self._before, {}
        if before[self._position].hexdigest() == digest:
            self._states += sorted((it for it in before.items() if it[0] % CELL == 0), key=_place)
            self._position = max(before)
            self._hash = before[self._position].copy()
            self._block = None

    def _block_here(self) -> Block | None:
        """The block that has the byte at the position, or will have it."""
        if self._block is None or self._position >= self._block.end:
            # where there is no other, the last one may still grow
            self._block = self._part.blocks.get(self._position, self._block)
        return self._block

    def _pass_border(self) -> None:
        """Compare or note the hash so far; drop a cell that is not what was once written."""
        position, digest = self._position, self._hash.hexdigest()
        with self._part.lock:
            if self._part.touched is not None:
                return
            stated = self._part.sums.get(position)
            is_wrong = position == self._part.size and self._part.sha256 not in (None, digest)
            if is_wrong and stated in (None, digest):
                # not for the next process to hold the bytes to
                pass
            elif stated is None:
                self._part.add_sum(position, digest)
            elif stated != digest and position not in self._dropped:
                self._dropped.add(position)
                self._drop_cell((position - 1) // CELL * CELL)
                return
            elif stated != digest:
                # it came so a second time: what was noted is of other bytes
                self._part.forget_sums(position)
                self._part.add_sum(position, digest)
            if position in self._before:
                self._go_on(digest)
            else:
                self._states.append((position, self._hash.copy()))

    def _drop_cell(self, first: int) -> None:
        part = self._part
        part.drop([it for it in part.blocks.values() if first <= it.first < first + CELL])
        self._relay.retry(self._name, "some of it is not what was written to disk", 0.0)
        self._relay.start(self._name, part.size, part.arrived)


def _place(state: tuple[int, object]) -> int:
    return state[0]
