"""Where the reports of one order arrive; who waits for them looks after the worker meanwhile."""

import queue
from collections.abc import Callable
from typing import Any, TypeAlias

from geniex_runtimes.contract import Event
from geniex_runtimes.llama_cpp.isolated.messages import Loaded, Progress, Result, Started

News: TypeAlias = Event | Exception | Progress | Loaded | Started | Result

_WAIT = 0.2  # seconds between looks; without them Windows would not deliver Ctrl-C


class Inbox:
    """The reports of one order as they come.

    `cancelled` is when it was, on the monotonic clock; `late` the seconds before it was given.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        """`look` is called between waits."""
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._look = look
        self.put = self._news.put
        self.cancelled = self.late = 0.0

    def get(self, timeout: float) -> Any:
        """The next one, a News. Raises queue.Empty."""
        try:
            return self._news.get(timeout=timeout)
        except queue.Empty:
            self._look()
            raise

    def wait(self) -> News:
        """The next one, however long that takes. Raises the error that came in its place."""
        while True:
            try:
                news: News = self.get(_WAIT)
            except queue.Empty:
                continue
            if isinstance(news, Exception):
                raise news
            return news
