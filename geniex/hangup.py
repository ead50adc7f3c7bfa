"""SIGHUP while `geniex serve` begins: its file of keys is to be read again, as later on.

The signal ends a process that does not ask for it, and starting takes a second. So it is only noted
until the server can act on it. It also comes where the terminal is gone, and then it ends us.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from types import FrameType

HANGUP: int | None = getattr(signal, "SIGHUP", None)  # Windows has none
_TERMINAL = "/dev/tty"
_ENDED = 129


class _State:
    had_terminal = False
    noted = False


def is_for_keys(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether this command line is a server with a file of keys, for which the signal counts."""
    flag = any(word.partition("=")[0] == "--api-key-file" for word in words)
    return words[:1] == ["serve"] and (flag or bool(environ.get("GENIEX_APIKEY_FILE")))


def hold() -> None:
    """Only note the signal from now on, in the main thread."""
    if HANGUP is not None:
        _State.had_terminal = has_terminal()
        signal.signal(HANGUP, _note)


def is_held() -> bool:
    """Whether the signal is only noted at the moment."""
    return HANGUP is not None and signal.getsignal(HANGUP) is _note


def take_noted() -> bool:
    """Whether it has come since; it counts once."""
    noted, _State.noted = _State.noted, False
    return noted


def release() -> None:
    """The signal ends this process again, at once where it has come: there are no keys to read."""
    if HANGUP is not None and is_held():
        signal.signal(HANGUP, signal.SIG_DFL)
        if take_noted():
            os.kill(os.getpid(), HANGUP)


def has_terminal() -> bool:
    """Whether there is a terminal that this process belongs to."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _note(number: int, frame: FrameType | None) -> None:
    if _State.had_terminal and not has_terminal():
        os._exit(_ENDED)
    _State.noted = True
