"""What is wrong with a chat completion is told by name."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from geniex_runtimes.fake import Script
from tests.geniex.server.chat_completions.conftest import Over
from tests.geniex.server.chat_completions.official import WEATHER, answered
from tests.geniex.server.door import GREETING, HELLO, Door, wait_for


def schema_form(**fields: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, **fields}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [*GREETING, {"role": "boss", "content": "x"}]}, "messages[1]"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages[0]"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 1.5}, "n"),
        ({"seed": "7"}, "seed"),
        ({"stop": 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"logprobs": 1}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"65": 101}}, "logit_bias"),
        ({"logit_bias": {"65": None}}, "logit_bias"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"tools": [WEATHER], "tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {
                "tools": [WEATHER],
                "tool_choice": {"type": "function", "function": {"name": "x"}},
            },
            "tool_choice",
        ),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": schema_form(strict="yes")}, "response_format"),
        ({"response_format": schema_form(name=5)}, "response_format"),
        ({"response_format": schema_form(description=[])}, "response_format"),
        (
            {"response_format": {"type": "json_object"}, "grammar_string": 'root ::= "a"'},
            "response_format",
        ),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"grammar_string": "root ::= x", "grammar_path": "x"}, "grammar_path"),
        ({"nctx": -5}, "nctx"),
        ({"keep_alive": 1e12}, "keep_alive"),
        ({"compute": "warp drive"}, "compute"),
        ({"model": "/etc/hosts"}, "model"),
        ({"model": "file:///etc/hosts"}, "model"),
        ({"model": "../x"}, "model"),
        ({"model": "~/x.gguf"}, "model"),
    ],
)
def test_a_bad_value_is_refused_by_name(chat: Door, fields: dict[str, Any], param: str) -> None:
    error = chat.refused(**fields)
    assert error["param"] is not None and error["param"].partition(".")[0].startswith(param)
    assert error["type"] == "invalid_request_error"


def test_a_folder_that_is_called_like_a_model_is_none(
    chat: Door, tmp_path: Path, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some" / "model"
    folder.mkdir(parents=True)
    (folder / "model.gguf").symlink_to(tiny_chat)
    monkeypatch.chdir(tmp_path)
    assert chat.refused(404, model="some/model")["code"] == "model_not_found"


def test_an_unknown_model_is_not_found(chat: Door) -> None:
    error = chat.refused(404, model="nobody/nothing")
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "geniex pull nobody/nothing" in error["message"]


def test_a_prompt_too_long_is_refused_with_both_numbers_then_all_is_well(chat: Door) -> None:
    messages = [{"role": "user", "content": "x" * 100}]
    error = chat.refused(messages=messages, nctx=64)
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is 64 tokens" in error["message"]
    assert "requested 123" in error["message"]
    assert chat.refused(messages=messages, nctx=64, stream=True)["code"] == error["code"]
    assert answered(chat, nctx=64).choices[0].message.content == HELLO


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_is_unloaded_meanwhile_is_an_error_not_half_an_answer(
    over: Over, stream: bool
) -> None:
    door = over(Script(("a",) * 5000, delay=0.01))

    def unload() -> None:
        wait_for(lambda: bool(door.runtime.models and door.runtime.models[-1].requests))
        door.runtime.models[-1].close()

    thread = threading.Thread(target=unload)
    thread.start()
    response = door.post(stream=stream)
    thread.join()
    # an unload before the first piece is a status in a stream, too
    assert response.status_code == 500 or stream
    data = response.text.rstrip().split("\n\n")[-1].removeprefix("data: ")
    assert json.loads(data)["error"]["code"] == "generation_failed"
