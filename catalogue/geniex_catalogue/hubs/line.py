"""What all downloads of one transfer share: the client, its patience, and the word of the hub."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from geniex_catalogue.hubs.web import Patience
from geniex_catalogue.hubs.worker import Abandon, Relay

if TYPE_CHECKING:
    import httpx2

_FEW = 3


class Line:
    """The way to the hub. `span` is how many bytes one request asks for, `width` how many ask.

    `changed` is notified when there may be something new to do.
    """

    def __init__(
        self,
        http: httpx2.Client,
        relay: Relay,
        abandon: Abandon,
        patience: Patience,
        span: int,
        width: int,
    ) -> None:
        self.http = http
        self.relay = relay
        self.abandon = abandon
        self.patience = patience
        self.span = span
        self.width = width
        self.changed = threading.Condition()
        self._free_at = 0.0

    def tell(self) -> None:
        """Wake whoever waits for something to do."""
        with self.changed:
            self.changed.notify_all()

    def narrow(self) -> None:
        """Let fewer ask from now on: one connection alone is fast."""
        self.width = min(self.width, _FEW)

    def hold(self, seconds: float) -> None:
        """Let nobody ask for some seconds: the hub has asked one of us to slow down."""
        until = time.monotonic() + min(seconds, self.patience.longest_pause)
        self._free_at = max(self._free_at, until)

    def wait_turn(self) -> None:
        """Wait until the hub may be asked. Raises AbandonedError."""
        while (left := self._free_at - time.monotonic()) > 0:
            self.abandon.pause(left)
