"""Reading the file of keys again at SIGHUP, which Windows has not: there it takes a restart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from geniex import hangup
from geniex.api_keys import KeyRing
from geniex_catalogue.errors import UsageError


@contextmanager
def reload_at_hangup(
    keys: KeyRing | None,
    on_reload: Callable[[str], None],
    end: Callable[[int, FrameType | None], None],
) -> Iterator[None]:
    """Read the keys' file again at each SIGHUP, as long as this lasts; the main thread alone.

    `on_reload` is told what came of it. The signal also means that the terminal is gone, and then
    `end` is called with it. One that came while the server began counts here. Without a file the
    signal ends us, as it does others, and on Windows nothing is changed.
    """
    if hangup.HANGUP is None or keys is None or keys.file is None:
        hangup.release()
        yield
        return
    had_terminal = hangup.has_terminal()

    def hung_up(number: int, frame: FrameType | None) -> None:
        if had_terminal and not hangup.has_terminal():
            end(number, frame)
            return
        _begin_reload(keys, on_reload)

    before = signal.signal(hangup.HANGUP, hung_up)
    if hangup.take_noted():
        _begin_reload(keys, on_reload)
    try:
        yield
    finally:
        signal.signal(hangup.HANGUP, before)


def _begin_reload(keys: KeyRing, on_reload: Callable[[str], None]) -> None:
    # not in a handler: a disk may take its time, and answers are on their way
    threading.Thread(target=_reload, args=(keys, on_reload), daemon=True).start()


def _reload(keys: KeyRing, on_reload: Callable[[str], None]) -> None:
    try:
        count = keys.reload()
    except UsageError as exc:
        on_reload(f"the API keys stay as they were: {exc.message}")
        return
    on_reload(f"the API keys were read again: {count}")
