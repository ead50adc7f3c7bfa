"""Messages: the OpenAI form in and out, parts to text."""

import json

import pytest

from geniex.chat.messages import Message, ToolCall, flatten
from geniex_catalogue.errors import UsageError


@pytest.mark.parametrize(
    ("content", "text", "media"),
    [
        pytest.param("hi", "hi", (), id="text"),
        pytest.param("", "", (), id="empty"),
        pytest.param(None, "", (), id="null"),
        pytest.param([], "", (), id="no parts"),
        pytest.param([{"type": "text", "text": "a"}], "a", (), id="one part"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}],
            "a\nb",
            (),
            id="parts in order",
        ),
        pytest.param(
            [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "what?"}],
            "what?",
            ("image",),
            id="image left out",
        ),
        pytest.param(
            [{"type": "input_audio"}, {"type": "video_url"}, {"type": "refusal", "refusal": "no"}],
            "no",
            ("audio", "video"),
            id="audio and video left out",
        ),
    ],
)
def test_content_becomes_text(content: object, text: str, media: tuple[str, ...]) -> None:
    message = Message.from_dict({"role": "user", "content": content})
    assert flatten(message.content) == (text, media)
    assert message.text == text


@pytest.mark.parametrize(
    ("data", "field"),
    [
        pytest.param({"content": "x"}, "role", id="no role"),
        pytest.param({"role": 3, "content": "x"}, "role", id="role a number"),
        pytest.param({"role": "wizard", "content": "x"}, "wizard", id="unknown role"),
        pytest.param({"role": "user"}, "content", id="no content"),
        pytest.param({"role": "assistant"}, "content", id="no content of the assistant"),
        pytest.param("hi", "object", id="no object"),
        pytest.param({"role": "user", "content": 3}, "content", id="content a number"),
        pytest.param({"role": "user", "content": ["x"]}, "content", id="part no object"),
        pytest.param({"role": "user", "content": [{"type": "hologram"}]}, "hologram", id="kind"),
        pytest.param({"role": "user", "content": [{}]}, "part", id="part without type"),
        pytest.param({"role": "user", "content": [{"type": "text"}]}, "text", id="no text"),
        pytest.param({"role": "user", "content": [{"type": []}]}, "type", id="type a list"),
        pytest.param({"role": "user", "content": "x", "name": 1}, "name", id="name a number"),
        pytest.param({"role": "assistant", "tool_calls": {}}, "tool_calls", id="calls no list"),
        pytest.param({"role": "assistant", "tool_calls": [{}]}, "function", id="call empty"),
        pytest.param(
            {"role": "assistant", "tool_calls": [{"function": {"name": "", "arguments": "{}"}}]},
            "name",
            id="call without name",
        ),
    ],
)
def test_what_is_no_message_is_refused_by_name(data: dict[str, object], field: str) -> None:
    with pytest.raises(UsageError, match=field):
        Message.from_dict(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            {"content": None, "refusal": "No."}, Message("assistant", "No."), id="refusal"
        ),
        pytest.param(
            {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
            Message("assistant", None, tool_calls=(ToolCall("f", "{}"),)),
            id="function_call",
        ),
        pytest.param(
            {"content": "x", "tool_calls": None, "refusal": None, "function_call": None},
            Message("assistant", "x"),
            id="null is absent",
        ),
    ],
)
def test_what_assistants_say_in_other_ways(data: dict[str, object], message: Message) -> None:
    assert Message.from_dict({"role": "assistant", **data}) == message


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_every_role_may_speak_in_parts(role: str) -> None:
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert Message.from_dict({"role": role, "content": content}).text == "a\nb"


def test_the_openai_form_goes_round() -> None:
    data = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "it rains",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Łódź"}'},
            }
        ],
    }
    assert Message.from_dict(data).as_dict() == data
    tool = {"role": "tool", "content": "sunny", "name": "weather", "tool_call_id": "c1"}
    assert Message.from_dict(tool).as_dict() == tool
    assert Message.from_dict({**tool, "role": "function"}).role == "tool"


@pytest.mark.parametrize(
    ("arguments", "parsed", "text"),
    [
        pytest.param('{"a": 1}', {"a": 1}, '{"a": 1}', id="json text"),
        pytest.param({"a": "ö"}, {"a": "ö"}, '{"a": "ö"}', id="object"),
        pytest.param("", {}, "{}", id="empty is no arguments"),
        pytest.param("hello", "hello", "hello", id="no json"),
        pytest.param("[1]", "[1]", "[1]", id="json but no object"),
        pytest.param("[" * 100_000, "[" * 100_000, "[" * 100_000, id="too deep"),
    ],
)
def test_arguments_in_both_forms(arguments: object, parsed: object, text: str) -> None:
    call = ToolCall("f", arguments)  # type: ignore[arg-type]
    assert call.parsed() == parsed
    assert call.text() == text


def test_a_saved_message_is_json() -> None:
    message = Message("user", [{"type": "text", "text": "hi"}])
    assert Message.from_dict(json.loads(json.dumps(message.as_dict()))) == message
