"""What each field of a message does."""

from typing import Any

import pytest
from openai.types import chat

from tests.geniex.server.chat_completions.official import answered
from tests.geniex.server.door import GREETING, Door

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
}
TEXT = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

# each documented field of each role, and what of it the model reads; None: it is refused
FIELDS: dict[type[Any], dict[str, tuple[object, str | None]]] = {
    chat.ChatCompletionSystemMessageParam: {
        "role": ("system", "<|system|>"),
        "content": (TEXT, "one\ntwo"),
        "name": ("Ann", ""),
    },
    chat.ChatCompletionDeveloperMessageParam: {
        "role": ("developer", "<|system|>"),
        "content": (TEXT, "one\ntwo"),
        "name": ("Ann", ""),
    },
    chat.ChatCompletionUserMessageParam: {
        "role": ("user", "<|user|>"),
        "content": (TEXT, "one\ntwo"),
        "name": ("Ann", ""),
    },
    chat.ChatCompletionAssistantMessageParam: {
        "role": ("assistant", "<|assistant|>"),
        "content": (TEXT, "one\ntwo"),
        "name": ("Ann", ""),
        "refusal": ("I cannot say.", "I cannot say."),
        "tool_calls": ([CALL], '"city": "Rome"'),
        "function_call": (CALL["function"], '"city": "Rome"'),
        "audio": ({"id": "audio_1"}, None),
    },
    chat.ChatCompletionToolMessageParam: {
        "role": ("tool", "<|tool|>"),
        "content": (TEXT, "one\ntwo"),
        "tool_call_id": ("call_1", ""),
    },
    chat.ChatCompletionFunctionMessageParam: {
        "role": ("function", "<|tool|>"),
        "content": ("one", "one"),
        "name": ("weather", ""),
    },
}
CASES = [
    pytest.param(fields["role"][0], name, value, read, id=f"{fields['role'][0]}-{name}")
    for fields in FIELDS.values()
    for name, (value, read) in fields.items()
]


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_the_table_knows_every_documented_field(kind: type[Any]) -> None:
    assert FIELDS[kind].keys() == kind.__annotations__.keys()


@pytest.mark.parametrize(("role", "name", "value", "read"), CASES)
def test_every_field_is_read_or_refused(
    chat: Door, role: str, name: str, value: object, read: str | None
) -> None:
    said = {} if name == "refusal" else {"content": "Well."}
    messages = [{**said, "role": role, name: value}, *GREETING]
    if read is None:
        assert chat.refused(messages=messages)["param"] == f"messages[0].{name}"
        return
    answered(chat, messages=messages)
    assert read in chat.runtime.prompt


@pytest.mark.parametrize(("role", "name", "value", "read"), CASES)
def test_null_is_the_same_as_absent(
    chat: Door, role: str, name: str, value: object, read: str | None
) -> None:
    if name in ("role", "content"):
        return
    answered(chat, messages=[{"role": role, "content": "Well.", name: None}, *GREETING])


def test_a_turn_with_calls_alone_has_no_content(chat: Door) -> None:
    messages = [
        *GREETING,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    answered(chat, messages=messages)
    assert '"city": "Rome"' in chat.runtime.prompt
    assert "None" not in chat.runtime.prompt
