"""A client's connection: how many there may be, and how long one may keep the server waiting.

Time runs while a request is on its way or the client does not read, never while it is answered:
loads, long prompts and long streams take what they take.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from geniex.server.errors import RequestError, describe
from geniex.server.options import MAX_CONNECTIONS
from geniex_catalogue.errors import ServerBusyError

MAX_HEAD = 48 << 10  # bytes of a head that is not whole yet; `head` says what of it is too much
HEAD_SECONDS = 30.0  # for a head, from its first byte; for the first one from the beginning
KEEP_SECONDS = 75.0  # between two requests: longer than clients keep theirs, or both ends race
PATIENCE_SECONDS = 5.0  # that a client has at least, before another one gets its place
PARTING_SECONDS = 1.0  # to read the last answer: closing at once may throw it away unread
STALL_SECONDS = 300.0  # that a client may leave what is sent to it unread

_HTTP_NAMES = {400: "invalid_http", 408: "request_timeout", 431: "headers_too_large"}


class Connection(H11Protocol):
    """uvicorn's, which knows no such limits; `most` is how many there may be."""

    most = MAX_CONNECTIONS
    head_seconds = HEAD_SECONDS
    patience_seconds = PATIENCE_SECONDS
    stall_seconds = STALL_SECONDS

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.waiting_since: float | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._parting: asyncio.TimerHandle | None = None
        self._refusing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the client, in the place of one that waits for nothing where there are too many."""
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self._bound(self.head_seconds)
        if len(self.connections) > self.most and not self._make_room():
            self._refusing = self.loop.call_later(PARTING_SECONDS, self._refuse)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._unbound()
        self._unstall()
        for timer in (self._refusing, self._parting):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that has begun has to come to its end."""
        if self._parting is not None or self.transport.is_closing():
            return
        if self._refusing is not None:
            if self._has_ended(data):
                self._refuse()
            return
        if not self._is_answering():
            if self._is_idle():
                self._unbound()
            self._bound(self.head_seconds)
        super().data_received(data)
        self._settle()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that nobody wanted to read."""
        super().on_response_complete()
        self._settle()

    def pause_writing(self) -> None:
        """Stop sending, but not for ever: the client reads nothing."""
        super().pause_writing()
        self._unstall()
        self._stalled = self.loop.call_later(self.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        self._unstall()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and close."""
        # uvicorn calls this where it has caught what h11 says of it
        problem = sys.exception()
        status = getattr(problem, "error_status_hint", 400)
        self._answer(
            RequestError(
                f"the request is no HTTP that is understood here: {_told(problem or msg)}",
                code=_HTTP_NAMES.get(status, "invalid_http"),
                status=status,
            )
        )

    def _should_upgrade(self) -> bool:
        # an answer by HTTP/1.1 tells the client all it needs; the log of the operator needs nothing
        return False

    def _current(self) -> RequestResponseCycle | None:
        return self.cycle  # None before the first request, whatever its type says

    def _is_answering(self) -> bool:
        current = self._current()
        return current is not None and not current.response_complete

    def _is_idle(self) -> bool:
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _settle(self) -> None:
        """Have the clock run or stand, as it is now."""
        if self._is_answering():
            self.waiting_since = None
            self._unbound()
            return
        if self.waiting_since is None:
            self.waiting_since = self.loop.time()
        if self._current() is None or self.transport.is_closing():
            return
        if not self._is_idle():
            self._bound(self.head_seconds)
            return
        self._unbound()
        if self.timeout_keep_alive_task is None:
            self._bound(KEEP_SECONDS)

    def _bound(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(seconds, self._give_up)

    def _unbound(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _unstall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self._answer(
                RequestError("the request did not come in time", code="request_timeout", status=408)
            )
        else:
            self.transport.close()

    def _has_ended(self, data: bytes) -> bool:
        """Whether the request that is refused is whole now, or nothing that can be read."""
        try:
            self.conn.receive_data(data)
            while (event := self.conn.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return True
        except h11.RemoteProtocolError:
            return True
        return False

    def _refuse(self) -> None:
        """Turn the client away; an answer before its request is here may be thrown away unread."""
        self._answer(ServerBusyError("too many clients are connected"))

    def _make_room(self) -> bool:
        """Close the connection that has waited for a request for longest; False if none waits."""
        latest = self.loop.time() - self.patience_seconds
        waiting = [
            (other.waiting_since, index, other)
            for index, other in enumerate(self.connections)
            if isinstance(other, Connection)
            and other is not self
            and other.waiting_since is not None
            and other.waiting_since <= latest
            and not other.transport.is_closing()
        ]
        if not waiting:
            return False
        *_, oldest = min(waiting)
        oldest.transport.close()
        return True

    def _answer(self, error: Exception) -> None:
        """Send an error and close: what comes after it is not read."""
        self._unbound()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # an answer has begun already: cutting it off is all that can be said
            self.transport.close()
            return
        status, body, headers = describe(error)
        content = body.model_dump_json().encode()
        sent = {
            "content-type": "application/json",
            "content-length": str(len(content)),
            "connection": "close",
            **headers,
        }
        for event in (
            h11.Response(status_code=status, headers=list(sent.items())),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self._part()

    def _part(self) -> None:
        """Close once the client has; soon in any case, and at once where there are too many."""
        if not self.transport.can_write_eof() or len(self.connections) > self.most:
            self.transport.close()
            return
        self.transport.write_eof()
        self._parting = self.loop.call_later(PARTING_SECONDS, self.transport.close)


def _told(problem: object) -> str:
    """What h11 says, without the line that it shows: that may be the header with the key."""
    return str(problem).partition(": bytearray(")[0]


def at_most(connections: int) -> type[Connection]:
    """The class of connections of a server that has so many at most."""
    return type("LimitedConnection", (Connection,), {"most": connections})
