"""Who hears that a hub is asked again, before a transfer begins: for its lists, and for headers."""

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_TELL: ContextVar[Callable[[str], None] | None] = ContextVar("tell", default=None)


@contextmanager
def told(tell: Callable[[str], None]) -> Iterator[None]:
    """Have `tell` given a line, in this thread, for each time that a hub is asked again."""
    token = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(token)


class Retelling:
    """Carries a worker's retries of asking for `what` over to the thread that waits for it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tell = _TELL.get()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def note(self, reason: str, wait: float) -> None:
        """An answer was broken for `reason`; the next is asked for in `wait` seconds."""
        when = f" in {wait:.0f} s" if wait >= 0.5 else ""
        self._lines.put(f"{self._what}: {reason}; asking again{when}")

    def deliver(self) -> None:
        """Tell what has gathered, here and now."""
        while self._tell is not None:
            try:
                line = self._lines.get_nowait()
            except queue.Empty:
                return
            self._tell(line)
