"""The chunks of a streamed chat completion, as the bytes of their events.

There is one for every piece of text, so they are put together from a prepared head and the JSON of
what is new. Concatenated, the deltas are the message that is not streamed.
"""

import json
import secrets
from collections.abc import Iterator
from typing import Any

from geniex.answering import Answer, AnswerPart
from geniex.chat.reasoning import Part
from geniex.chat.tools import ToolCallPart
from geniex.server import sse
from geniex.server.answers import Ended, Item, Opened
from geniex.server.logprobs import for_chat

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def new_id() -> str:
    """An id for a chat completion."""
    return f"chatcmpl-{secrets.token_hex(12)}"


class ChatChunks:
    """Makes one stream's chunks, item by item; the last one carries the `geniex` object."""

    def __init__(self, *, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._head = ""
        self._tail = ',"usage":null}\n\n' if include_usage else "}\n\n"
        self._begun: set[int] = set()
        # the last finish waits: without a usage chunk it is the one for the `geniex` object
        self._held = ""

    def of(self, item: Item) -> Iterator[str]:
        """The events of an item."""
        if isinstance(item, Opened):
            head = {
                "id": new_id(),
                "object": "chat.completion.chunk",
                "created": item.created,
                "model": item.model,
                "system_fingerprint": item.fingerprint,
            }
            self._head = f'data: {_dumps(head)[:-1]},"choices":['
        elif isinstance(item, Ended):
            yield from self._ended(item)
        else:
            index, event = item
            if self._held:
                yield self._held + self._tail
                self._held = ""
            if index not in self._begun:
                self._begun.add(index)
                calls = isinstance(event, ToolCallPart)
                role = {"role": "assistant", "content": None if calls else ""}
                yield self._choice(index, _dumps(role)) + self._tail
            if isinstance(event, Answer):
                finish = f'"{event.finish_reason}"'
                self._held = self._choice(index, "{}", finish=finish)
            elif text := _delta(event):
                logprobs = _logprobs(event)
                yield self._choice(index, text, logprobs) + self._tail

    def _choice(self, index: int, delta: str, logprobs: str = "null", finish: str = "null") -> str:
        return (
            f'{self._head}{{"index":{index},"delta":{delta},"logprobs":{logprobs},'
            f'"finish_reason":{finish}}}]'
        )

    def _ended(self, item: Ended) -> Iterator[str]:
        geniex = f',"geniex":{_dumps(item.geniex)}}}\n\n'
        if self._include_usage:
            yield self._held + self._tail
            yield f'{self._head}],"usage":{_dumps(item.usage.for_chat())}{geniex}'
        else:
            yield self._held + geniex
        yield sse.DONE.decode()


def _delta(event: AnswerPart) -> str:
    """The JSON of what a part adds; empty where that is nothing."""
    if isinstance(event, Part):
        if not event.text and not event.logprobs:
            return ""
        name = "content" if event.kind == "content" else "reasoning_content"
        return f'{{"{name}":{_dumps(event.text)}}}'
    function: dict[str, Any] = {"arguments": event.arguments}
    call: dict[str, Any] = {"index": event.index}
    if event.id is not None:
        call |= {"id": event.id, "type": "function"}
        function = {"name": event.name, **function}
    return _dumps({"tool_calls": [{**call, "function": function}]})


def _logprobs(event: AnswerPart) -> str:
    if isinstance(event, Part) and event.kind == "content" and event.logprobs:
        return _dumps(for_chat(event.logprobs))
    return "null"
