"""Reading the file of keys again at SIGHUP, which Windows has not: there it takes a restart."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from geniex.api_keys import KeyRing
from geniex_catalogue.errors import UsageError

_HANGUP: int | None = getattr(signal, "SIGHUP", None)
_TERMINAL = Path("/dev/tty")


@contextmanager
def reload_at_hangup(
    keys: KeyRing | None,
    on_reload: Callable[[str], None],
    end: Callable[[int, FrameType | None], None],
) -> Iterator[None]:
    """Read the keys' file again at each SIGHUP, as long as this lasts; the main thread alone.

    `on_reload` is told what came of it. The signal also means that the terminal is gone, and then
    `end` is called with it. Without a file, and on Windows, nothing is changed.
    """
    if _HANGUP is None or keys is None or keys.file is None:
        yield
        return
    had_terminal = _has_terminal()

    def hung_up(number: int, frame: FrameType | None) -> None:
        if had_terminal and not _has_terminal():
            end(number, frame)
            return
        # not here: a disk may take its time, and answers are on their way
        threading.Thread(target=_reload, args=(keys, on_reload), daemon=True).start()

    before = signal.signal(_HANGUP, hung_up)
    try:
        yield
    finally:
        signal.signal(_HANGUP, before)


def _reload(keys: KeyRing, on_reload: Callable[[str], None]) -> None:
    try:
        count = keys.reload()
    except UsageError as exc:
        on_reload(f"the API keys stay as they were: {exc.message}")
        return
    on_reload(f"the API keys were read again: {count}")


def _has_terminal() -> bool:
    """Whether there is a terminal that this process belongs to."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
