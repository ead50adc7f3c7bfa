"""The input of a response as the messages of a chat."""

from typing import Any

import pytest

from geniex.chat.messages import Message, ToolCall
from geniex.server.errors import RequestError
from geniex.server.responses.items import read_input

WEATHER = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Rome"}',
    "status": "completed",
}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Think."}],
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}
CALL = ToolCall("weather", '{"city": "Rome"}', "call_1")
HELLO = [{"type": "text", "text": "Hello."}]


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        pytest.param("Hi", [Message("user", "Hi")], id="a text"),
        pytest.param([{"role": "user", "content": "Hi"}], [Message("user", "Hi")], id="easy"),
        pytest.param(
            [{"type": "message", "role": "developer", "content": "Be brief."}],
            [Message("developer", "Be brief.")],
            id="developer",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            [Message("user", [{"type": "text", "text": "Hi"}])],
            id="parts",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}],
            [Message("user", [{"type": "input_image", "image_url": "data:,"}])],
            id="an image is left to the chat layer",
        ),
        pytest.param(
            [{**SAID, "content": [{"type": "refusal", "refusal": "No."}]}],
            [Message("assistant", [{"type": "text", "text": "No."}])],
            id="refusal",
        ),
        pytest.param(
            [THOUGHT, SAID, WEATHER],
            [Message("assistant", HELLO, "Think.", (CALL,))],
            id="one turn is one message",
        ),
        pytest.param([WEATHER], [Message("assistant", None, None, (CALL,))], id="a call alone"),
        pytest.param(
            [WEATHER, {**WEATHER, "call_id": "call_2", "arguments": ""}],
            [Message("assistant", None, None, (CALL, ToolCall("weather", "{}", "call_2")))],
            id="two calls, one without arguments",
        ),
        pytest.param(
            [WEATHER, SAID],
            [Message("assistant", None, None, (CALL,)), Message("assistant", HELLO)],
            id="what is said after a call is another turn",
        ),
        pytest.param(
            [SAID, THOUGHT, WEATHER],
            [Message("assistant", HELLO), Message("assistant", "", "Think.", (CALL,))],
            id="new thoughts begin a turn",
        ),
        pytest.param(
            [
                WEATHER,
                {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"},
                {"role": "user", "content": "And now?"},
            ],
            [
                Message("assistant", None, None, (CALL,)),
                Message("tool", "18 degrees", name="weather", tool_call_id="call_1"),
                Message("user", "And now?"),
            ],
            id="the output of a call knows its function",
        ),
        pytest.param(
            [
                {
                    "type": "function_call_output",
                    "call_id": "call_9",
                    "output": [{"type": "input_text", "text": "ok"}],
                }
            ],
            [Message("tool", [{"type": "text", "text": "ok"}], tool_call_id="call_9")],
            id="an output in parts, of a call that is not here",
        ),
        pytest.param(
            [{**THOUGHT, "content": None, "summary": [{"type": "summary_text", "text": "Hm."}]}],
            [Message("assistant", "", "Hm.")],
            id="a summary stands in for reasoning",
        ),
        pytest.param(
            [{**THOUGHT, "content": []}, {"role": "user", "content": "Hi"}],
            [Message("user", "Hi")],
            id="reasoning without text is nothing",
        ),
    ],
)
def test_items_become_messages(given: Any, messages: list[Message]) -> None:
    assert read_input(given, None) == messages


def test_instructions_come_first() -> None:
    system, user = read_input("Hi", "Be brief.")
    assert (system, user) == (Message("system", "Be brief."), Message("user", "Hi"))


@pytest.mark.parametrize(
    ("given", "param", "words"),
    [
        pytest.param(None, "input", "a text or a list", id="null"),
        pytest.param(7, "input", "a text or a list", id="a number"),
        pytest.param([], "input", "empty", id="no items"),
        pytest.param([{**THOUGHT, "content": []}], "input", "empty", id="nothing in the items"),
        pytest.param(["Hi"], "input[0]", "an object", id="a text among items"),
        pytest.param([{}], "input[0].type", "missing", id="no type"),
        pytest.param([{"type": 3}], "input[0].type", "missing", id="a type that is none"),
        pytest.param(
            [{"type": "web_search_call", "id": "ws_1"}],
            "input[0].type",
            "`web_search_call`",
            id="an item of a built-in tool",
        ),
        pytest.param(
            [{"type": "item_reference", "id": "msg_1"}], "input[0]", "stored", id="reference"
        ),
        pytest.param([{"role": "tool", "content": "x"}], "input[0].role", "user", id="role"),
        pytest.param([{"role": "user", "content": 1}], "input[0].content", "text", id="content"),
        pytest.param(
            [{"role": "user", "content": [{"type": "hologram"}]}],
            "input[0].content[0].type",
            "`hologram`",
            id="part",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "input_text"}]}],
            "input[0].content[0].text",
            "text",
            id="a part without its text",
        ),
        pytest.param([{**WEATHER, "name": ""}], "input[0].name", "`name`", id="a call of nothing"),
        pytest.param([{**WEATHER, "arguments": 1}], "input[0].arguments", "JSON", id="arguments"),
        pytest.param(
            [{**WEATHER, "namespace": "n"}], "input[0].namespace", "namespaces", id="namespace"
        ),
        pytest.param(
            [{"type": "function_call_output", "output": "x"}],
            "input[0].call_id",
            "`call_id`",
            id="an output of no call",
        ),
        pytest.param(
            [{"type": "function_call_output", "call_id": "c"}],
            "input[0].output",
            "`output`",
            id="no output",
        ),
    ],
)
def test_what_is_no_item_is_refused_by_its_place(given: Any, param: str, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_input(given, None)
    assert caught.value.param == param
    assert words in caught.value.message
    assert caught.value.status == 400
