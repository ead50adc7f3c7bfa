"""A running generation whose events another thread puts into a queue."""

import queue
from collections.abc import Callable, Iterator
from typing import Protocol

from geniex_runtimes.contract import Done, Event

_WAIT = 0.2  # seconds between looks for a signal while waiting for an event


class Events(Protocol):
    """A queue of a generation's events."""

    def get(self, *, timeout: float) -> Event | Exception:
        """The next one. Raises queue.Empty when it does not come in time."""
        ...


class Answer:
    """Iterate for its events, close to cancel it. See contract.Generation."""

    def __init__(self, events: Events, cancel: Callable[[], None]) -> None:
        """An exception among the `events` is raised and ends them. `cancel` may come too late."""
        self._events = events
        self._cancel = cancel
        self._done = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._done:
            raise StopIteration
        while True:
            try:
                event = self._events.get(timeout=_WAIT)
            except queue.Empty:
                continue  # a wait without an end would keep Windows from delivering Ctrl-C
            if isinstance(event, Exception):
                self._done = True
                raise event
            self._done = isinstance(event, Done)
            return event

    def stop(self) -> None:
        """End it early; the events go on to `Done`."""
        if not self._done:
            self._cancel()

    def close(self) -> None:
        """Cancel; nothing happens when the generation has ended."""
        if not self._done:
            self._done = True
            self._cancel()

    def __del__(self) -> None:
        self.close()
