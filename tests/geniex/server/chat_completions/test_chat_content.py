"""Reasoning, tools and media in chat completions."""

import json
import logging
from typing import Any

import pytest

from geniex_runtimes.fake import Script
from tests.geniex.server.chat_completions.conftest import TEMPLATE, Over
from tests.geniex.server.chat_completions.official import WEATHER, answered, chunks, geniex
from tests.geniex.server.door import GREETING, HELLO, Door

THINKS = Script(("<think>", "Let me ", "see.", "</think>", "\n\n", "It is ", "18."))
CALLS = Script(
    (
        "Let me look.\n",
        '<tool_call>\n{"name": "weather", ',
        '"arguments": {"city": ',
        '"Rome"}}\n</tool_call>\n<tool_call>\n',
        '{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    )
)
ONLY_CALL = Script(
    ('<tool_call>\n{"name": "weather", "arguments": ', '{"city": "Rome"}}\n</tool_call>')
)


@pytest.mark.parametrize(
    ("format", "content", "reasoning"),
    [
        (None, "It is 18.", "Let me see."),
        ("auto", "It is 18.", "Let me see."),
        ("DeepSeek ", "It is 18.", "Let me see."),
        ("none", "<think>Let me see.</think>\n\nIt is 18.", None),
    ],
)
def test_reasoning_is_kept_apart_or_inline(
    over: Over, format: str | None, content: str, reasoning: str | None
) -> None:
    door = over(THINKS, chat_template=TEMPLATE)
    completion = answered(door, reasoning_format=format)
    message = completion.choices[0].message
    assert message.content == content
    assert (message.model_extra or {}).get("reasoning_content") == reasoning
    deltas = [c.choices[0].delta for c in chunks(door, reasoning_format=format)]
    assert "".join(delta.content or "" for delta in deltas) == content
    thought = "".join((d.model_extra or {}).get("reasoning_content") or "" for d in deltas)
    assert (thought or None) == reasoning
    assert completion.usage is not None
    details = completion.usage.completion_tokens_details
    assert details is not None and details.reasoning_tokens


def test_a_reasoning_format_that_is_none_is_refused(chat: Door) -> None:
    assert chat.refused(reasoning_format="depseek")["param"] == "reasoning_format"


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, ""),
        ({"enable_think": True}, "[thinks True]"),
        ({"enable_think": False}, "[thinks False]"),
        ({"reasoning_effort": "none"}, "[thinks False]"),
        ({"reasoning_effort": "minimal"}, "[thinks False]"),
        ({"reasoning_effort": "high"}, "[thinks True][effort high]"),
        ({"reasoning_effort": "high", "enable_think": False}, "[thinks False][effort high]"),
        ({"chat_template_kwargs": {"mood": "glad"}}, "[mood glad]"),
    ],
)
def test_the_template_is_told(chat: Door, fields: dict[str, Any], shown: str) -> None:
    answered(chat, **fields)
    assert chat.runtime.prompt.partition("<|user|>")[0] == shown


def test_tool_calls(over: Over) -> None:
    door = over(CALLS, chat_template=TEMPLATE)
    choice = answered(door, tools=[WEATHER]).choices[0]
    calls = [call for call in choice.message.tool_calls or () if call.type == "function"]
    assert choice.finish_reason == "tool_calls"
    assert [call.function.name for call in calls] == ["weather", "weather"]
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Rome", "Oslo"]
    assert len({call.id for call in calls}) == 2
    content = choice.message.content
    assert content is not None and content.strip() == "Let me look."

    streamed: dict[int, dict[str, str]] = {}
    text = ""
    for chunk in chunks(door, tools=[WEATHER]):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for call in delta.tool_calls or ():
            assert call.function is not None
            if call.id is not None:
                assert call.index not in streamed and call.type == "function"
                streamed[call.index] = {"name": call.function.name or "", "arguments": ""}
            streamed[call.index]["arguments"] += call.function.arguments or ""
    assert text == content
    assert [streamed[index] for index in sorted(streamed)] == [
        {"name": call.function.name, "arguments": call.function.arguments} for call in calls
    ]


def test_a_call_alone_has_no_content(over: Over) -> None:
    door = over(ONLY_CALL, chat_template=TEMPLATE)
    assert answered(door, tools=[WEATHER]).choices[0].message.content is None
    deltas = [c.choices[0].delta for c in chunks(door, tools=[WEATHER])]
    assert [delta.content for delta in deltas] == [None] * len(deltas)


def test_the_answer_of_a_tool_is_read(chat: Door) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
    }
    answered(
        chat,
        tools=[WEATHER],
        messages=[
            *GREETING,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ],
    )
    assert "sunny" in chat.runtime.prompt
    assert '"city": "Rome"' in chat.runtime.prompt


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
@pytest.mark.parametrize(
    "content", ["text", [{"type": "text", "text": "text"}]], ids=["string", "parts"]
)
def test_content_of_every_role(chat: Door, role: str, content: Any) -> None:
    answered(chat, messages=[{"role": role, "content": content}, *GREETING])
    assert "text" in chat.runtime.prompt


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "image"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "audio"),
    ],
)
def test_media_are_left_out_and_told_of(
    chat: Door, caplog: pytest.LogCaptureFixture, part: Any, word: str
) -> None:
    content = [{"type": "text", "text": "What is this?"}, part]
    with caplog.at_level(logging.WARNING, logger="geniex.server"):
        completion = answered(chat, messages=[{"role": "user", "content": content}])
    assert completion.choices[0].message.content == HELLO
    assert "What is this?" in chat.runtime.prompt
    (warning,) = geniex(completion)["warnings"]
    assert word in warning
    assert warning in caplog.text
    last = chunks(chat, messages=[{"role": "user", "content": content}])[-1]
    assert geniex(last)["warnings"] == [warning]
    assert geniex(answered(chat))["warnings"] == []
