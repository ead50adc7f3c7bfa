"""What is said in a chat: messages as the faces take them, and as templates want them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from geniex_catalogue.errors import UsageError

Content: TypeAlias = str | Sequence[Mapping[str, object]] | None

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_FORM = 'it looks like {"role": "user", "content": "Hello"}'
# the text field of each kind of part that is text
_TEXT_FIELDS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_MEDIA = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "audio_url": "audio",
    "video_url": "video",
    "video": "video",
    "file": "file",
    "input_file": "file",
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made; `arguments` is JSON text or the object itself."""

    name: str
    arguments: str | Mapping[str, object] = "{}"
    id: str = ""

    def parsed(self) -> object:
        """The arguments as an object where they are one, else as they stand."""
        if not isinstance(self.arguments, str):
            return self.arguments
        try:
            value = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return self.arguments
        return value if isinstance(value, dict) else self.arguments

    def text(self) -> str:
        """The arguments as JSON text."""
        if isinstance(self.arguments, str):
            return self.arguments or "{}"
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `content` is text, or parts in the OpenAI form, or None.

    `reasoning` is what the assistant thought before it said `content`. `name` and `tool_call_id`
    belong to the answers of tools. `results` are (tool, answer) between its calls and its content,
    for templates that want them in the assistant's own message.
    """

    role: str
    content: Content = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    tool_call_id: str | None = None
    results: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The text of the content; parts are joined by a newline, media left out."""
        return flatten(self.content)[0]

    def with_text(self, text: str) -> "Message":
        """The same message with other content."""
        return replace(self, content=text)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> "Message":
        """Read the OpenAI form of a message. Raises UsageError for what is not one."""
        if not isinstance(data, Mapping):
            raise UsageError(f"a message is an object, not {type(data).__name__}", hint=_FORM)
        role = data.get("role")
        if not isinstance(role, str) or not role:
            raise UsageError("a message needs a `role`", hint=_FORM)
        if role not in ROLES:
            raise UsageError(
                f"a message's `role` cannot be `{role}`", hint=f"use one of {', '.join(ROLES)}"
            )
        reasoning = data.get("reasoning_content", data.get("reasoning"))
        # an assistant's refusal is what it said; `function_call` is how calls were told before 2024
        said = data.get("content")
        said = data.get("refusal") if said is None else said
        old_call = data.get("function_call")
        calls = [{"function": old_call}] if old_call is not None else data.get("tool_calls")
        message = cls(
            role="tool" if role == "function" else role,
            content=_checked_content(said),
            reasoning=reasoning if isinstance(reasoning, str) else None,
            tool_calls=_tool_calls(calls),
            name=_optional_text(data, "name"),
            tool_call_id=_optional_text(data, "tool_call_id"),
        )
        flatten(message.content)
        if "content" not in data and not (message.tool_calls or message.reasoning):
            raise UsageError(f"a message of the {role} needs `content`", hint=_FORM)
        return message

    def as_dict(self) -> dict[str, object]:
        """The OpenAI form of the message, for files and the wire; `from_dict` reads it."""
        data: dict[str, object] = {"role": self.role, "content": self.content}
        if self.reasoning is not None:
            data["reasoning_content"] = self.reasoning
        if self.tool_calls:
            data["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.text()},
                }
                for call in self.tool_calls
            ]
        if self.name is not None:
            data["name"] = self.name
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        return data


def flatten(content: Content) -> tuple[str, tuple[str, ...]]:
    """The text of a content, and the kinds of media that are left out, in order.

    Text parts are joined by a newline. Raises UsageError for a part of unknown kind.
    """
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    media: list[str] = []
    for part in content:
        kind = str(part.get("type"))
        text = part.get(_TEXT_FIELDS[kind]) if kind in _TEXT_FIELDS else None
        if isinstance(text, str):
            texts.append(text)
        elif kind in _MEDIA:
            media.append(_MEDIA[kind])
        else:
            raise UsageError(_wrong_part(part, kind))
    return "\n".join(texts), tuple(media)


def _wrong_part(part: Mapping[str, object], kind: str) -> str:
    if part.get("type") is None:
        return "a content part needs a `type`"
    if kind not in _TEXT_FIELDS:
        return f"a content part of type `{kind}` is not understood"
    field = _TEXT_FIELDS[kind]
    wrong = "is missing" if part.get(field) is None else "is no text"
    return f"the `{field}` of a content part of type `{kind}` {wrong}"


def template_form(
    message: Message, *, content_parts: bool, arguments_text: bool
) -> dict[str, object]:
    """The message as a template reads it.

    `content_parts` gives the content as a list of one text part. Tool-call arguments are objects,
    or JSON text with `arguments_text`. Reasoning is given under each name that templates use.
    Answers of tools in `results` that are JSON objects are given as objects.
    """
    text = message.text
    form: dict[str, object] = {
        "role": message.role,
        "content": [{"type": "text", "text": text}] if content_parts else text,
    }
    if message.reasoning:
        form |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), message.reasoning)
    if message.tool_calls:
        form["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.text() if arguments_text else call.parsed(),
                },
            }
            for call in message.tool_calls
        ]
    if message.results:
        form["tool_responses"] = [
            {"name": name, "response": ToolCall(name, result).parsed()}
            for name, result in message.results
        ]
    if message.name is not None:
        form["name"] = message.name
    if message.tool_call_id is not None:
        form["tool_call_id"] = message.tool_call_id
    return form


def _checked_content(content: object) -> Content:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return content
    raise UsageError("a message's `content` is text, a list of parts, or null")


def _optional_text(data: Mapping[str, object], field: str) -> str | None:
    value = data.get(field)
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"a message's `{field}` is text")


def _tool_calls(calls: object) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list):
        raise UsageError("a message's `tool_calls` is a list")
    return tuple(_tool_call(call) for call in calls)


def _tool_call(call: object) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(call, dict) and isinstance(function, dict):
        name, arguments = function.get("name"), function.get("arguments") or "{}"
        if isinstance(name, str) and name and isinstance(arguments, str | dict):
            return ToolCall(name, arguments, str(call.get("id") or ""))
    raise UsageError("a tool call needs a `function` with `name` and `arguments`")
