"""The messages of a request: the chat layer reads them, old forms are put into today's first."""

from collections.abc import Mapping, Sequence
from typing import Any

from geniex.chat.messages import Message
from geniex.server.refusals import named, unsupported
from geniex_catalogue.errors import UsageError


def read_messages(given: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages. Raises RequestError, naming the place."""
    read: list[Message] = []
    for index, message in enumerate(given):
        place = f"messages[{index}]"
        if message.get("audio") is not None:
            raise unsupported(
                f"`{place}.audio` is not supported: no audio is kept here", f"{place}.audio"
            )
        try:
            read.append(Message.from_dict(_modern(message)))
        except UsageError as exc:
            raise named(exc, place) from exc
    return read


def _modern(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with its call as one of a tool, and a refusal as what was said."""
    modern = dict(message)
    if (call := modern.pop("function_call", None)) is not None and not modern.get("tool_calls"):
        modern["tool_calls"] = [{"id": "", "type": "function", "function": call}]
    refusal = modern.pop("refusal", None)
    if isinstance(refusal, str) and modern.get("content") is None:
        modern["content"] = refusal
    return modern
