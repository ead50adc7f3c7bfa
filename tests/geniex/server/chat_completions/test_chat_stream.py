"""The stream of a chat completion."""

import json
from typing import Any

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import Script
from tests.geniex.server.chat_completions.conftest import Over
from tests.geniex.server.chat_completions.official import MODEL, answered, chunks
from tests.geniex.server.door import HELLO, Door


@pytest.mark.parametrize("usage", [False, True], ids=["plain", "usage"])
def test_a_stream_is_in_order(chat: Door, usage: bool) -> None:
    streamed = chunks(chat, **({"stream_options": {"include_usage": True}} if usage else {}))
    texts = streamed[:-1] if usage else streamed
    assert len({(c.id, c.created, c.model, c.system_fingerprint) for c in streamed}) == 1
    assert streamed[0].model == MODEL
    assert [c.choices[0].delta.role for c in texts] == ["assistant"] + [None] * (len(texts) - 1)
    assert "".join(c.choices[0].delta.content or "" for c in texts) == HELLO
    reasons = [c.choices[0].finish_reason for c in texts]
    assert reasons == [None] * (len(texts) - 1) + ["stop"]
    geniexes = ["geniex" in (c.model_extra or {}) for c in streamed]
    assert geniexes == [False] * (len(streamed) - 1) + [True]
    if usage:
        last = streamed[-1]
        assert last.choices == []
        assert last.usage is not None and last.usage.completion_tokens == 4
        assert all("usage" in c.model_fields_set and c.usage is None for c in texts)
    else:
        assert not any("usage" in c.model_fields_set for c in streamed)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
        ),
    ],
)
def test_stream_options_that_cannot_be_met_are_refused(
    chat: Door, options: dict[str, Any], param: str
) -> None:
    assert chat.refused(**options)["param"] == param


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_byte_is_a_status(over: Over, stream: bool) -> None:
    door = over(Script(prefill_error=GenerationError("the device is gone")))
    error = door.refused(500, stream=stream)
    assert error["code"] == "generation_failed"


def test_an_error_after_the_first_byte_is_an_event(over: Over) -> None:
    door = over(Script(error=GenerationError("the device is gone"), error_after=2))
    *_, last = door.events()
    assert json.loads(last)["error"]["code"] == "generation_failed"
    assert door.refused(500)["code"] == "generation_failed"


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_load_is_a_status(over: Over, stream: bool) -> None:
    door = over(Script(), load_error=LoadError("no memory for it"))
    assert door.refused(500, stream=stream)["code"] == "model_load_failed"


def test_text_of_any_kind_survives(over: Over) -> None:
    door = over(Script(("é", '"quote"\n', "日本", "\u2028", "😀")))
    whole = 'é"quote"\n日本\u2028😀'
    assert answered(door).choices[0].message.content == whole
    assert "".join(c.choices[0].delta.content or "" for c in chunks(door)) == whole
    # many clients cut a stream's text at each line break that Unicode has
    lines = [line for line in door.post(stream=True).text.splitlines() if line]
    assert all(line == "data: [DONE]" or json.loads(line.removeprefix("data: ")) for line in lines)
