"""Required calls and forms, kept to by real models on real llama.cpp."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from geniex.chat.messages import Message
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolChoice
from geniex.config import Settings
from geniex.session import Answer, AnswerOptions, OpenModel, open_model
from geniex_runtimes.options import SamplingOptions

ASK = [Message("user", "What is the weather in Paris?")]
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "unit": {"enum": ["C", "F"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TOOLS = (Tool("weather", "The weather of a city", CITY), Tool("now", "The time"))


@pytest.fixture(scope="module", params=["tiny", pytest.param("real", marks=pytest.mark.slow)])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenModel]:
    name = "geniex/tiny-chat"
    if request.param == "real":
        name = str(request.getfixturevalue("smollm2"))
    settings = Settings(tmp_path_factory.mktemp("data"), nctx=1024)
    with open_model(name, settings) as opened:
        yield opened


def answer(
    model: OpenModel, temperature: float, seed: int = 1, max_tokens: int = 150, **how: Any
) -> Answer:
    sampling = SamplingOptions(temperature=temperature, seed=seed)
    *_, last = model.answer(ASK, AnswerOptions(sampling, max_tokens=max_tokens, **how))
    assert isinstance(last, Answer)
    return last


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("names", [(), ("weather",), ("now",)], ids=["any", "weather", "now"])
def test_a_required_call_is_made(
    model: OpenModel, names: tuple[str, ...], temperature: float
) -> None:
    # one call: a small model may go on calling until its tokens are used up
    choice = ToolChoice("required", names)
    said = answer(model, temperature, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    assert (said.finish_reason, said.content) == ("tool_calls", "")
    assert said.tool_calls and len({call.id for call in said.tool_calls}) == len(said.tool_calls)
    for call in said.tool_calls:
        assert call.name in (names or ("weather", "now"))
        schema = CITY if call.name == "weather" else {"maxProperties": 0}
        jsonschema.validate(json.loads(call.text()), schema)


@pytest.mark.parametrize("names", [(), ("weather",)], ids=["any", "weather"])
def test_a_required_call_that_is_cut_is_no_content(
    model: OpenModel, names: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    # the real model takes its time, and what it is held to is the same
    step = 3 if request.node.callspec.params["model"] == "real" else 1
    for most in range(1, 16, step):
        choice = ToolChoice("required", names)
        said = answer(model, 0.0, max_tokens=most, tools=TOOLS, tool_choice=choice)
        assert (said.content, said.reasoning) == ("", "")


def test_one_call_at_a_time(model: OpenModel) -> None:
    required = ToolChoice("required")
    said = answer(model, 1.0, tools=TOOLS, tool_choice=required, parallel_tool_calls=False)
    assert len(said.tool_calls) == 1 and said.finish_reason == "tool_calls"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_content_fits_its_schema(model: OpenModel, temperature: float) -> None:
    form = ResponseFormat("json_schema", CITY)
    said = answer(model, temperature, response_format=form)
    assert said.finish_reason == "stop" and said.tool_calls == ()
    jsonschema.validate(json.loads(said.content), CITY)


def test_content_is_an_object(model: OpenModel) -> None:
    for seed in range(2):
        said = answer(model, 1.0, seed, response_format=ResponseFormat("json_object"))
        if said.finish_reason == "stop":
            assert isinstance(json.loads(said.content), dict)
        else:
            assert said.content.startswith("{")


def test_log_probabilities_of_what_is_said(model: OpenModel) -> None:
    said = answer(model, 0.0, logprobs=2)
    assert b"".join(entry.data for entry in said.logprobs).decode() == said.content
    assert all(len(entry.top) == 2 and entry.logprob <= 0 for entry in said.logprobs)


def test_the_prompt_is_the_one_that_is_evaluated(model: OpenModel) -> None:
    options = AnswerOptions(SamplingOptions(temperature=0), max_tokens=1, tools=TOOLS)
    *_, said = model.answer(ASK, options)
    assert isinstance(said, Answer)
    assert len(model.prompt_tokens(ASK, options)) == said.profile.prompt_tokens
