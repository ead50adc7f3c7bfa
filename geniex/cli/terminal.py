"""Signals, long native calls and the terminal's state: Ctrl-C always works, nothing is left broken.

SIGINT raises KeyboardInterrupt in the main thread. Python can only do that between two of its own
steps, so native calls that take long run on another thread (`in_background`) while the main thread
waits in short steps. A second Ctrl-C before the first has had its effect ends the process at once.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

from geniex import hangup
from geniex.cli.errors import INTERRUPTED

T = TypeVar("T")
STEP = 0.05  # seconds between two looks at a background call: within what feels like at once
GRACE = 0.5  # seconds that an interrupted call gets to end in order


class _State:
    pending = False  # a Ctrl-C is on its way up the stack
    background = 0  # native calls that were left running
    found: list[Any] | None = None  # the terminal's attributes before we changed them


@contextmanager
def guarded() -> Iterator[None]:
    """Handle signals, and give the terminal back as it was found."""
    previous = {}
    if threading.current_thread() is threading.main_thread():
        previous = {signal.SIGINT: signal.signal(signal.SIGINT, _on_interrupt)}
        previous |= {number: signal.signal(number, _on_terminate) for number in _ending()}
    _State.pending = False
    try:
        yield
    finally:
        _give_back()
        for number, handler in previous.items():
            signal.signal(number, handler)


def settle() -> None:
    """Say that an interrupt had its effect: the next Ctrl-C is a first one again."""
    _State.pending = False


def left_running() -> bool:
    """Whether a native call still runs on a thread, so that an orderly exit would crash or hang."""
    return _State.background > 0


def in_background(call: Callable[[], T], on_interrupt: Callable[[], None] | None = None) -> T:
    """Run a call that may stay long in native code, and be open to Ctrl-C meanwhile.

    `on_interrupt` asks the call to give up; it is left running if it does not do so soon.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        try:
            results.append(call())
        except BaseException as exc:  # carried over to the thread that waits
            errors.append(exc)
        ended.set()

    threading.Thread(target=work, name="geniex-background", daemon=True).start()
    try:
        # not Thread.join: in Python 3.11 an interrupted join takes the thread for ended
        while not ended.wait(STEP):
            pass
    except BaseException:
        if on_interrupt is not None:
            on_interrupt()
        if not ended.wait(GRACE):
            _State.background += 1
        raise
    if errors:
        raise errors[0]
    return results[0]


def hush() -> None:
    """Do not show what is typed while nobody asks; it is kept for who asks next.

    `guarded` gives the terminal back. Does nothing where there is no POSIX terminal.
    """
    if sys.platform == "win32" or sys.__stdin__ is None:
        return
    import termios

    try:
        _State.found = termios.tcgetattr(sys.__stdin__)
    except (termios.error, ValueError):
        return
    quiet = termios.tcgetattr(sys.__stdin__)
    quiet[0] &= ~termios.ICRNL  # or Enter would reach the line editor as Ctrl-J
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.__stdin__, termios.TCSANOW, quiet)


def _give_back() -> None:
    # only what was taken: a job in the background is stopped by the kernel for touching this
    if sys.platform == "win32" or _State.found is None or sys.__stdin__ is None:
        return
    import termios

    found, _State.found = _State.found, None
    try:
        termios.tcsetattr(sys.__stdin__, termios.TCSANOW, found)
    except (termios.error, ValueError):
        return  # the terminal is gone


def _end_at_once(code: int) -> NoReturn:
    """Leave without any clean-up but that of the terminal: cursor, colour, plain paste."""
    _give_back()
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        os.write(2, b"\x1b[?25h\x1b[?2004l\x1b[0m\r\n")
    os._exit(code)


def _ending() -> list[signal.Signals]:
    """The signals that end us, without those that who started us (`nohup`) has us ignore."""
    names = ("SIGTERM", "SIGQUIT") if hangup.is_held() else ("SIGTERM", "SIGHUP", "SIGQUIT")
    named = (getattr(signal, name, None) for name in names)
    return [s for s in named if s is not None and signal.getsignal(s) is not signal.SIG_IGN]


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    if _State.pending:
        _end_at_once(INTERRUPTED)
    _State.pending = True
    raise KeyboardInterrupt


def _on_terminate(number: int, frame: FrameType | None) -> None:
    _end_at_once(128 + number)
