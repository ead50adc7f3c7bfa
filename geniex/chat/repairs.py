"""Ways to say the same in a form that a strict template accepts.

A template that insists on alternation, or on one system message at the front, refuses messages
that others take. Each repair rewrites the messages, keeps what was said, and tells what it did.
They are tried only after the template itself refused; capable templates get messages untouched.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from geniex.chat.messages import Message

_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")

Messages: TypeAlias = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Repair:
    """A rewriting, and what to tell the user when it was needed.

    `about` is what the refusal must speak of, in small letters, for this to be worth trying.
    """

    rewrite: Callable[[Messages], Messages]
    note: str
    about: str = ""


def merge_neighbours(messages: Messages) -> Messages:
    """Join messages of the same role that follow each other; tool calls and results stay."""
    groups: list[list[Message]] = []
    for message in messages:
        before = groups[-1][0] if groups else None
        if before and before.role == message.role and _plain(before) and _plain(message):
            groups[-1].append(message)
        else:
            groups.append([message])
    return tuple(group[0] if len(group) == 1 else _joined(group) for group in groups)


def system_to_front(messages: Messages) -> Messages:
    """Make one system message at the front of all of them."""
    system, others = _parted(messages)
    if not system:
        return messages
    return merge_neighbours((Message("system", _paragraphs(system)), *others))


def open_with_user(messages: Messages) -> Messages:
    """Put an empty user message before an assistant message that opens the chat."""
    for at, message in enumerate(messages):
        if message.role == "assistant":
            return (*messages[:at], Message("user", ""), *messages[at:])
        if message.role != "system":
            break
    return messages


def system_into_user(messages: Messages) -> Messages:
    """Put the system messages before the text of the first user message."""
    system, others = _parted(messages)
    if not system:
        return messages
    for at, message in enumerate(others):
        if message.role == "user":
            changed = message.with_text(_paragraphs((*system, message)))
            return (*others[:at], changed, *others[at + 1 :])
    return (Message("user", _paragraphs(system)), *others)


def short_call_ids(messages: Messages) -> Messages:
    """Give tool calls and their results ids of nine letters and digits, as Mistral wants them."""
    return tuple(
        replace(
            message,
            tool_calls=tuple(replace(call, id=_short(call.id)) for call in message.tool_calls),
            tool_call_id=message.tool_call_id and _short(message.tool_call_id),
        )
        for message in messages
    )


def content_over_reasoning(messages: Messages) -> Messages:
    """Leave out the reasoning of messages that call tools and have content as well."""
    return tuple(
        replace(message, reasoning=None) if message.tool_calls and message.text else message
        for message in messages
    )


SYSTEM_FIRST = Repair(system_to_front, "system messages were moved to the front for this template")
NO_SYSTEM_ROLE = Repair(
    system_into_user,
    "this model's template has no system role: the system prompt stands before the first user "
    "message",
)

REPAIRS: Sequence[Repair] = (
    Repair(
        short_call_ids, "the ids of tool calls were shortened for this template", "tool call id"
    ),
    Repair(merge_neighbours, "consecutive messages of one role were joined for this template"),
    SYSTEM_FIRST,
    Repair(open_with_user, "an empty user message was put first for this template"),
    Repair(
        content_over_reasoning,
        "reasoning beside content and tool calls was left out for this template",
    ),
    NO_SYSTEM_ROLE,
)


def _short(call_id: str) -> str:
    if _SHORT_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]


def _plain(message: Message) -> bool:
    return not message.tool_calls and message.role != "tool"


def _joined(messages: Sequence[Message]) -> Message:
    thoughts = [m.reasoning for m in messages if m.reasoning]
    return replace(
        messages[0],
        content=_paragraphs(messages),
        reasoning="\n\n".join(thoughts) if thoughts else None,
    )


def _parted(messages: Messages) -> tuple[Messages, Messages]:
    system = tuple(m for m in messages if m.role == "system")
    return system, tuple(m for m in messages if m.role != "system")


def _paragraphs(messages: Sequence[Message]) -> str:
    return "\n\n".join(text for m in messages if (text := m.text))
