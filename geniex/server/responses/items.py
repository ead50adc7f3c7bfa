"""The input of a response: a text or a list of items, as the messages of a chat.

What an assistant did in one turn comes as several items (reasoning, message, calls) and becomes
one message; the output of a call becomes a message of the tool that was called.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from geniex.chat.messages import Message, ToolCall
from geniex.server.errors import RequestError
from geniex.server.refusals import invalid, unsupported

Item: TypeAlias = Mapping[str, object]

ROLES = ("user", "assistant", "system", "developer")
TEXT_PARTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
# their text parts are answered; the chat layer leaves these out and says so
MEDIA_PARTS = ("input_image", "input_audio", "input_file")
_REFERENCES = "nothing is stored here: send the item itself"


def read_input(given: object, instructions: str | None) -> list[Message]:
    """The messages of `input`, after `instructions` as the system's.

    Raises RequestError, naming the place, for what is no item or no part of one that can be read.
    """
    messages = [Message("system", instructions)] if instructions else []
    if isinstance(given, str):
        return [*messages, Message("user", given)]
    if not isinstance(given, list):
        raise invalid("`input` is a text or a list of items", "input")
    reader = _Reader()
    for index, item in enumerate(given):
        reader.read(_object(item, f"input[{index}]"), f"input[{index}]")
    said = reader.finish()
    if not said:
        raise invalid("`input` is empty: send a text, or an item with one", "input")
    return [*messages, *said]


class _Reader:
    """Gathers the items of one assistant turn into one message."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._turn: Message | None = None
        self._called: dict[str, str] = {}

    def read(self, item: Item, at: str) -> None:
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind == "message":
            self._message(item, at)
        elif kind == "reasoning":
            self._reasoning(item, at)
        elif kind == "function_call":
            self._call(item, at)
        elif kind == "function_call_output":
            self._output(item, at)
        elif kind == "item_reference":
            raise RequestError(
                f"`{at}` refers to an item; {_REFERENCES}", param=at, code="unsupported_value"
            )
        else:
            _refuse_kind(kind, "items", f"{at}.type")

    def finish(self) -> list[Message]:
        """All messages, once no more items come."""
        if self._turn is not None:
            self._messages.append(self._turn)
            self._turn = None
        return self._messages

    def _message(self, item: Item, at: str) -> None:
        role = item.get("role")
        if role not in ROLES:
            raise invalid(f"`{at}.role` is one of {', '.join(ROLES)}", f"{at}.role")
        content = _content(item.get("content"), f"{at}.content")
        if role != "assistant":
            self.finish()
            self._messages.append(Message(str(role), content))
            return
        # two messages of the assistant, or one after its calls, are two turns
        if self._turn is not None and (self._turn.content or self._turn.tool_calls):
            self.finish()
        self._turn = replace(self._turn or Message("assistant"), content=content)

    def _reasoning(self, item: Item, at: str) -> None:
        texts = [
            text
            for field in ("content", "summary")
            if (text := Message("assistant", _content(item.get(field), f"{at}.{field}")).text)
        ]
        if self._turn is not None and (self._turn.content or self._turn.tool_calls):
            self.finish()
        before = self._turn.reasoning if self._turn is not None else None
        # the summary says less than the content: it stands in where that is missing
        reasoning = "\n".join(filter(None, (before, *texts[:1])))
        if reasoning:
            self._turn = Message("assistant", "", reasoning)

    def _call(self, item: Item, at: str) -> None:
        name, call_id = _text(item, "name", at), _text(item, "call_id", at)
        if item.get("namespace") is not None:
            raise unsupported("namespaces of tools are not supported", f"{at}.namespace")
        self._called[call_id] = name
        call = ToolCall(name, _arguments(item, at), call_id)
        turn = self._turn or Message("assistant", None)
        self._turn = replace(turn, tool_calls=(*turn.tool_calls, call))

    def _output(self, item: Item, at: str) -> None:
        call_id = _text(item, "call_id", at)
        if "output" not in item:
            raise _missing(f"`{at}` needs `output`", f"{at}.output")
        content = _content(item["output"], f"{at}.output")
        self.finish()
        name = self._called.get(call_id)
        self._messages.append(Message("tool", content, name=name, tool_call_id=call_id))


def _content(value: object, at: str) -> str | list[dict[str, object]]:
    """Text as it is, parts checked one by one; null and absent are no text."""
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise invalid(f"`{at}` is a text or a list of parts", at)
    parts = [dict(_object(part, f"{at}[{index}]")) for index, part in enumerate(value)]
    for index, part in enumerate(parts):
        kind = part.get("type")
        if isinstance(kind, str) and kind in TEXT_PARTS:
            field = TEXT_PARTS[kind]
            if not isinstance(part.get(field), str):
                place = f"{at}[{index}].{field}"
                if part.get(field) is None:
                    raise _missing(f"`{place}` is missing", place)
                raise invalid(f"`{place}` is a text", place)
            # one kind of text from here on
            parts[index] = {"type": "text", "text": part[field]}
        elif kind not in MEDIA_PARTS:
            _refuse_kind(kind, "content parts", f"{at}[{index}].type")
    return parts


def _arguments(item: Item, at: str) -> str:
    arguments = item.get("arguments")
    if isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    if arguments is None or isinstance(arguments, str):
        return arguments or "{}"
    raise invalid(f"`{at}.arguments` is JSON text", f"{at}.arguments")


def _object(value: object, at: str) -> Item:
    if isinstance(value, Mapping):
        return value
    raise invalid(f"`{at}` is an object, not {type(value).__name__}", at)


def _text(item: Item, field: str, at: str) -> str:
    value = item.get(field)
    if isinstance(value, str) and value:
        return value
    raise _missing(f"`{at}` needs `{field}`", f"{at}.{field}")


def _missing(message: str, at: str) -> RequestError:
    return RequestError(message, param=at, code="missing_required_parameter")


def _refuse_kind(kind: object, what: str, at: str) -> None:
    if isinstance(kind, str) and kind:
        raise RequestError(
            f"{what} of type `{kind}` are not supported", param=at, code="unsupported_value"
        )
    raise _missing(f"`{at}` is missing", at)
