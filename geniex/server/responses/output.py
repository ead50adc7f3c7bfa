"""The items of a response's output, and the events that tell how each comes to be."""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from geniex.chat.reasoning import Part
from geniex.chat.tools import ToolCallPart
from geniex.server.logprobs import token_entry

Json: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal["completed", "incomplete"]


def new_id(kind: str) -> str:
    """An id that no other object has: `msg_...`, `rs_...`, `fc_...`, `resp_...`."""
    return f"{kind}_{secrets.token_hex(24)}"


class OutputItem(Protocol):
    """An item that grows; `item` is what it is by now. Events lack only their number."""

    item: Json

    def opened(self) -> Iterator[Json]:
        """The events of its beginning."""
        ...

    def takes(self, part: Part | ToolCallPart) -> bool:
        """Whether the part belongs to this item."""
        ...

    def add(self, part: Any) -> Iterator[Json]:
        """The events of a part that it takes."""
        ...

    def closed(self, status: Status) -> Iterator[Json]:
        """The events of its end."""
        ...


class TextItem:
    """A message or a block of reasoning: one part of text."""

    def __init__(self, kind: Literal["content", "reasoning"], index: int, logprobs: bool) -> None:
        self._kind = kind
        self._index = index
        self._texts: list[str] = []
        self._logprobs: list[Json] | None = [] if logprobs and kind == "content" else None
        self._name = "output_text" if kind == "content" else "reasoning_text"
        self.item = _message() if kind == "content" else _reasoning()

    def takes(self, part: Part | ToolCallPart) -> bool:
        """Whether the part is text of the same kind."""
        return isinstance(part, Part) and part.kind == self._kind

    def opened(self) -> Iterator[Json]:
        """The item and its part, both empty."""
        yield _added(self._index, self.item)
        yield {"type": "response.content_part.added", **self._place(), "part": self._part()}

    def add(self, part: Part) -> Iterator[Json]:
        """A piece of text."""
        self._texts.append(part.text)
        event = {"type": f"response.{self._name}.delta", **self._place(), "delta": part.text}
        if self._kind == "content":
            event["logprobs"] = []
        if self._logprobs is not None:
            listed = [token_entry(entry) for entry in part.logprobs]
            self._logprobs += listed
            event["logprobs"] = [_without_bytes(entry) for entry in listed]
        yield event

    def closed(self, status: Status) -> Iterator[Json]:
        """The whole text, the part, the item."""
        part = self._part()
        done = {"type": f"response.{self._name}.done", **self._place(), "text": part["text"]}
        if self._kind == "content":
            done["logprobs"] = [_without_bytes(entry) for entry in self._logprobs or ()]
        yield done
        yield {"type": "response.content_part.done", **self._place(), "part": part}
        self.item = {**self.item, "status": status, "content": [part]}
        yield _done(self._index, self.item)

    def _part(self) -> Json:
        part: Json = {"type": self._name, "text": "".join(self._texts)}
        if self._kind == "content":
            part |= {"annotations": [], "logprobs": list(self._logprobs or ())}
        return part

    def _place(self) -> Json:
        return {"item_id": self.item["id"], "output_index": self._index, "content_index": 0}


class CallItem:
    """A call of a function: its name at once, its arguments in pieces."""

    def __init__(self, first: ToolCallPart, index: int) -> None:
        self._call = first.index
        self._index = index
        self._arguments: list[str] = []
        self.item: Json = {
            "type": "function_call",
            "id": new_id("fc"),
            "call_id": first.id,
            "name": first.name,
            "arguments": "",
            "status": "in_progress",
        }

    def takes(self, part: Part | ToolCallPart) -> bool:
        """Whether the part is of the same call."""
        return isinstance(part, ToolCallPart) and part.index == self._call

    def opened(self) -> Iterator[Json]:
        """The item, without arguments yet."""
        yield _added(self._index, self.item)

    def add(self, part: ToolCallPart) -> Iterator[Json]:
        """A piece of the arguments; the first part of a call may have none."""
        if part.arguments:
            self._arguments.append(part.arguments)
            yield {
                "type": "response.function_call_arguments.delta",
                **self._place(),
                "delta": part.arguments,
            }

    def closed(self, status: Status) -> Iterator[Json]:
        """The whole arguments, the item."""
        arguments = "".join(self._arguments)
        yield {
            "type": "response.function_call_arguments.done",
            **self._place(),
            "arguments": arguments,
        }
        self.item = {**self.item, "status": status, "arguments": arguments}
        yield _done(self._index, self.item)

    def _place(self) -> Json:
        return {"item_id": self.item["id"], "output_index": self._index}


def _message() -> Json:
    return {
        "type": "message",
        "id": new_id("msg"),
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }


def _reasoning() -> Json:
    return {
        "type": "reasoning",
        "id": new_id("rs"),
        "status": "in_progress",
        "summary": [],
        "content": [],
    }


def _added(index: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _done(index: int, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def _without_bytes(entry: Json) -> Json:
    """As the events of text carry it."""
    tops: Sequence[Json] = entry["top_logprobs"]
    return {
        "token": entry["token"],
        "logprob": entry["logprob"],
        "top_logprobs": [{"token": top["token"], "logprob": top["logprob"]} for top in tops],
    }
