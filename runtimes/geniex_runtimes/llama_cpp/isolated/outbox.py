"""What the worker says: put there by any thread, written by one, all that is ready at once."""

import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

from geniex_runtimes.contract import Done, Event
from geniex_runtimes.llama_cpp.isolated import failures, messages
from geniex_runtimes.workers import child
from geniex_runtimes.workers.wire import ProtocolError, write

BEAT = 5.0  # seconds between two words while there is work
_AT_ONCE = 128  # messages

# what the engine says of a generation, with its number: made a message by the thread that writes
Heard: TypeAlias = tuple[int, Event | Exception]


class Outbox:
    """`put` may be called from any thread, and never blocks."""

    def __init__(self, descriptor: int, busy: Callable[[], bool]) -> None:
        """`busy` tells whether there is work, of which silence would be a sign of a fault."""
        self._items: queue.SimpleQueue[messages.Report | Heard] = queue.SimpleQueue()
        self._descriptor = descriptor
        self._busy = busy
        self.put = self._items.put
        threading.Thread(target=self._write, name="reports", daemon=True).start()

    def _write(self) -> None:
        try:
            while True:
                write(self._descriptor, b"".join(map(_packed, self._ready())))
        except OSError:
            child.end()  # nobody reads

    def _ready(self) -> list[messages.Report | Heard]:
        try:
            found = [self._items.get(timeout=BEAT)]
        except queue.Empty:
            return [messages.Beat()] if self._busy() else []
        try:
            while len(found) < _AT_ONCE:
                found.append(self._items.get_nowait())
        except queue.Empty:
            pass
        return found


def _packed(item: messages.Report | Heard) -> bytes:
    report = _report(*item) if isinstance(item, tuple) else item
    try:
        return messages.WIRE.pack(report)
    except ProtocolError as exc:
        number = getattr(report, "number", 0)
        return messages.WIRE.pack(messages.Failed(number, "GenerationError", str(exc)))


def _report(number: int, event: Event | Exception) -> messages.Report:
    if isinstance(event, Exception):
        return failures.told(number, event)
    if isinstance(event, Done):
        return messages.Finished(number, event.finish_reason, event.profile)
    return messages.Piece(number, event.text, event.logprobs, event.tokens)
