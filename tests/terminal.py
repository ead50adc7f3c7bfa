"""A program on a terminal of its own: what it shows, what is typed, how it leaves the terminal."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 20.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def environment(**more: str) -> dict[str, str]:
    """The environment of a child that finds this source tree."""
    path = os.pathsep.join(str(ROOT / name) for name in ("", "runtimes", "catalogue"))
    return {**os.environ, "PYTHONPATH": path, **more}


def python(*args: str) -> tuple[str, ...]:
    """`python -m ARGS...`."""
    return (sys.executable, "-m", *args)


class Terminal:
    """A child on a pseudo terminal."""

    def __init__(self, *command: str, **variables: str) -> None:
        import fcntl
        import pty
        import termios

        self.master, child_end = pty.openpty()
        self.before = termios.tcgetattr(child_end)
        self._child_end = child_end  # kept open, to look at the terminal after the child

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command,
            stdin=child_end,
            stdout=child_end,
            stderr=child_end,
            preexec_fn=own_terminal,
            cwd=ROOT,
            env=environment(**{"TERM": "xterm", **variables}),
        )
        self._seen = ""

    @property
    def text(self) -> str:
        """What was shown since the last `forget`, without escape sequences."""
        return _ESCAPES.sub("", self._seen).replace("\r", "")

    @property
    def raw(self) -> str:
        """The same, with them."""
        return self._seen

    def forget(self) -> None:
        """Begin anew with what is shown."""
        self.look(0.1)
        self._seen = ""

    def look(self, seconds: float = 0.1) -> str:
        """Take in what comes within so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    self._seen += os.read(self.master, 1 << 16).decode(errors="replace")
                except OSError:
                    break
        return self.text

    def wait_for(self, text: str) -> str:
        """Wait until something is shown. Raises AssertionError after a while."""
        end = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.text}"
            self.look(0.05)
        return self.text

    def type(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def leave(self) -> tuple[int, float]:
        """Wait for the end: the exit code, and how many seconds it took."""
        start = time.monotonic()
        while self.process.poll() is None and time.monotonic() - start < PATIENCE:
            self.look(0.02)
        seconds = time.monotonic() - start
        assert self.process.returncode is not None, f"still running:\n{self.text}"
        self.look(0.05)
        return self.process.returncode, seconds

    def settings(self) -> list[Any]:
        """The terminal's attributes."""
        import termios

        return termios.tcgetattr(self._child_end)

    def close(self) -> None:
        """End the child, free the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._child_end)


@contextmanager
def terminal(*command: str, **variables: str) -> Iterator[Terminal]:
    """The command on a terminal."""
    made = Terminal(*command, **variables)
    try:
        yield made
    finally:
        made.close()
