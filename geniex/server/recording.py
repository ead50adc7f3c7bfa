"""Hands what a request said, and what it was answered, to the log of prompts."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from geniex.server.observed import observed
from geniex.server.prompt_log import PromptLog

MOST_SIDE = 16 << 20  # bytes of a body or an answer that are kept


class Recorder:
    """Keeps the bodies of requests that were let in, and their answers; no headers, no queries."""

    def __init__(self, app: ASGIApp, log: PromptLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and keep a copy of what passes."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        asked, said = _Side(), _Side()
        started = time.monotonic()
        status = 0

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                asked.add(message.get("body", b""))
            return message

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                said.add(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, heard, told)
        finally:
            request = observed()
            facts = {
                "time": datetime.now(UTC).isoformat(),
                "request_id": request.id,
                "route": getattr(scope.get("route"), "path", "unknown"),
                "status": status,
                "seconds": round(time.monotonic() - started, 6),
                "model": request.model,
            }
            for name, side in (("request_cut", asked), ("answer_cut", said)):
                if side.cut:
                    facts[name] = True
            self._log.put(facts, asked.whole(), said.whole())


class _Side:
    """One of the two sides, up to a limit."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.cut = False

    def add(self, part: bytes) -> None:
        room = MOST_SIDE - self._size
        self.cut = self.cut or len(part) > room
        if part and room > 0:
            self._parts.append(part[:room])
            self._size += len(self._parts[-1])

    def whole(self) -> bytes:
        return b"".join(self._parts)
