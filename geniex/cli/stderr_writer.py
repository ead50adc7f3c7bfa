"""A stderr that never keeps its writer waiting, for a process that must go on whoever reads it.

A pipe that nobody empties, a terminal that was stopped (Ctrl-S) and a disk that is full stop or
fail who writes to them. A thread of its own writes here; what it cannot write in time is counted
and left out.
"""

import errno
import io
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

MOST_WAITING = 1 << 20  # bytes that wait to be written
_FAREWELL = 1.0  # seconds that the last words get to be written
_RETRY = 1.0  # seconds until a stream that failed is tried again
_GONE = (errno.EPIPE, errno.EBADF, errno.ECONNRESET)


@contextmanager
def unblocked_stderr(most_waiting: int = MOST_WAITING) -> Iterator[None]:
    """Have `sys.stderr` never wait inside the block; streams without a descriptor stay."""
    stream = sys.stderr
    descriptor = _descriptor_of(stream)
    if stream is None or descriptor is None:
        yield
        return
    stream.flush()
    writer = StderrWriter(stream, descriptor, most_waiting)
    sys.stderr = writer
    try:
        yield
    finally:
        sys.stderr = stream
        writer.close()


def _descriptor_of(stream: TextIO | None) -> int | None:
    # a console of Windows is written to in its own way, and nothing stops it
    if stream is None or stream.closed or (sys.platform == "win32" and stream.isatty()):
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


class StderrWriter(io.TextIOBase):
    """Takes text at once; a thread writes it to the descriptor. Usable from any thread."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, stream: TextIO, descriptor: int, most_waiting: int) -> None:
        self._stream = stream
        # one of our own: what a native library writes to 2 is caught at times, by a file in its
        # place, and a line that came just then would be taken for the library's
        self._descriptor = os.dup(descriptor)
        self._most = most_waiting
        # what is written once lines were lost, where lines have another form
        self.lost_line: Callable[[int], str] = "({} lines were lost: nobody took them)\n".format
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._lost = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="geniex-stderr", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Take a text; it is left out where too much waits already."""
        data = text.encode("utf-8", "replace")
        with self._changed:
            if self._ending or self._size + len(data) > self._most:
                self._lost += data.count(b"\n")
            else:
                self._waiting.append(data)
                self._size += len(data)
                self._changed.notify()
        return len(text)

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor of the stream below."""
        return self._stream.fileno()

    def close(self) -> None:
        """Write what waits, as far as that goes soon. What comes after is left out."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(_FAREWELL)

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                if not self._put(data):
                    return
        finally:
            os.close(self._descriptor)

    def _next(self) -> bytes | None:
        """All that waits, once something does; None at the end."""
        with self._changed:
            while not self._waiting:
                if self._ending:
                    return None
                self._changed.wait()
            data = b"".join(self._waiting)
            if self._lost:
                data += self.lost_line(self._lost).encode()
            self._waiting.clear()
            self._size = self._lost = 0
            return data

    def _put(self, data: bytes) -> bool:
        """Write it all; whether there is still somebody to write to."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # who started us made it so
                select.select([], [self._descriptor], [])
            except OSError as exc:
                if exc.errno in _GONE:
                    self._give_up()
                    return False
                with self._changed:  # a full disk may have room again
                    self._lost += bytes(rest).count(b"\n")
                    if self._ending:
                        return False
                time.sleep(_RETRY)
                return True
        return True

    def _give_up(self) -> None:
        with self._changed:
            self._ending = True
            self._waiting.clear()
