"""A command in a process that is killed at a moment: at its Nth touch of a store, or by the clock.

POSIX alone: it forks, so that hundreds of commands need no start-up of their own.
"""

import contextlib
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TOUCHES = ("os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR
_KILLED = -signal.SIGKILL
_PATIENCE = 120.0


@dataclass(frozen=True)
class Moment:
    """When it is killed: at this touch, or after so many seconds; never with neither."""

    touch: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        """For the report."""
        return f"touch {self.touch}" if self.touch is not None else f"{self.seconds:.3f} s"


@dataclass(frozen=True)
class Ended:
    """How it ended: the exit code, -9 where it was killed; how often it touched the store."""

    code: int
    touches: int
    seconds: float


def run(words: Sequence[str]) -> tuple[int, str]:
    """A command in this process: its exit code and stdout."""
    from geniex.cli.app import run as command

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        return command(list(words)), out.getvalue()


def run_until(words: Sequence[str], root: Path, moment: Moment) -> Ended:
    """A command in a process of its own, killed at a moment. Raises TimeoutError."""
    reader, writer = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(words, root, moment, writer)
    os.close(writer)
    code = _waited(child, began + _PATIENCE)
    with os.fdopen(reader, "rb") as told:
        touches = int(told.read() or 0)
    return Ended(code, touches, time.monotonic() - began)


def _work(words: Sequence[str], root: Path, moment: Moment, writer: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        count = _watch(root, moment.touch)
        if moment.seconds is not None:
            timer = threading.Timer(moment.seconds, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
        code, _ = run(words)
        os.write(writer, str(count[0]).encode())
    finally:
        os._exit(code)


def _watch(root: Path, at: int | None) -> list[int]:
    """Count touches of what lies under `root`, and be killed at one of them."""
    count, prefix = [0], str(root)

    def touch(event: str, given: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(given[2], int) and given[2] & _WRITING
        if (writes or event in _TOUCHES) and str(given[0]).startswith(prefix):
            count[0] += 1
            if count[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(touch)
    return count


def _waited(child: int, until: float) -> int:
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError("a command does not end")
        time.sleep(0.002)
