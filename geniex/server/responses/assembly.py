"""From the parts of an answer to a response: its events one by one, and the object as it grows.

A streamed response is these events, one that is not streamed the object at their end: both say
the same by construction.
"""

import time
from collections.abc import Iterator

from geniex.chat.reasoning import Part
from geniex.chat.tools import ToolCallPart
from geniex.server.responses.output import CallItem, Json, OutputItem, Status, TextItem


class Assembly:
    """One response in the making; `response` is the object as it stands."""

    def __init__(self, response: Json, *, logprobs: bool = False) -> None:
        self.response = response
        self._logprobs = logprobs
        self._open: OutputItem | None = None
        self._number = 0

    def begin(self) -> Iterator[Json]:
        """The first events, before anything is generated."""
        yield self._numbered({"type": "response.created", "response": dict(self.response)})
        yield self._numbered({"type": "response.in_progress", "response": dict(self.response)})

    def add(self, part: Part | ToolCallPart) -> Iterator[Json]:
        """The events of a piece of the answer."""
        if isinstance(part, Part) and not part.text:
            return
        if self._open is None or not self._open.takes(part):
            yield from self._close("completed")
            yield from self._start(part)
        assert self._open is not None
        yield from map(self._numbered, self._open.add(part))

    def end(self, limited: bool, usage: Json, geniex: Json) -> Iterator[Json]:
        """The last events; `limited`: a limit of tokens cut the answer short."""
        status: Status = "incomplete" if limited else "completed"
        if self._open is None and not self.response["output"]:
            # an answer of no words is a message without text, as clients expect one
            yield from self._start(Part("content", ""))
        yield from self._close(status)
        self.response |= {"usage": usage, "geniex": geniex}
        if limited:
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self.response["completed_at"] = int(time.time())
        yield self._ended(status)

    def fail(self, message: str) -> Iterator[Json]:
        """The last events of a response that an error ended."""
        yield from self._close("incomplete")
        self.response["error"] = {"code": "server_error", "message": message}
        yield self._ended("failed")

    def _start(self, part: Part | ToolCallPart) -> Iterator[Json]:
        index = len(self.response["output"])
        if isinstance(part, Part):
            self._open = TextItem(part.kind, index, self._logprobs)
        else:
            self._open = CallItem(part, index)
        yield from map(self._numbered, self._open.opened())

    def _close(self, status: Status) -> Iterator[Json]:
        if self._open is not None:
            yield from map(self._numbered, self._open.closed(status))
            self.response["output"] = [*self.response["output"], self._open.item]
            self._open = None

    def _ended(self, status: str) -> Json:
        self.response["status"] = status
        return self._numbered({"type": f"response.{status}", "response": dict(self.response)})

    def _numbered(self, event: Json) -> Json:
        event["sequence_number"] = self._number
        self._number += 1
        return event
