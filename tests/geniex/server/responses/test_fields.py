"""Each field of a response that is asked for: honoured, or refused by its name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
from openai.types.responses import FunctionToolParam
from openai.types.responses.response_create_params import ResponseCreateParamsBase, StreamOptions
from openai.types.responses.response_text_config_param import ResponseTextConfigParam
from openai.types.shared_params.reasoning import Reasoning as ReasoningParam

from geniex.server.responses.protocol import (
    TOOL_UNSUPPORTED,
    UNSUPPORTED,
    Reasoning,
    ResponsesRequest,
    TextConfig,
)
from geniex_runtimes.contract import GenerationRequest
from tests.geniex.server.door import HELLO
from tests.geniex.server.responses.judge import CALLS, WEATHER, Judge, over

FORMAT = {
    "type": "json_schema",
    "name": "place",
    "schema": {"type": "object", "properties": {"city": {"enum": ["Rome"]}}, "required": ["city"]},
}
NAMED = {"type": "function", "name": "weather"}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [NAMED]}
# of a function, what `Tool` reads
TOOL = ("type", "name", "description", "parameters", "strict")


@pytest.mark.parametrize(
    ("documented", "prefix", "known"),
    [
        pytest.param(ResponseCreateParamsBase, "", ResponsesRequest.model_fields, id="request"),
        pytest.param(ReasoningParam, "reasoning.", Reasoning.model_fields, id="reasoning"),
        pytest.param(ResponseTextConfigParam, "text.", TextConfig.model_fields, id="text"),
        pytest.param(StreamOptions, "stream_options.", {}, id="stream options"),
        pytest.param(
            FunctionToolParam, "", {**TOOL_UNSUPPORTED, **dict.fromkeys(TOOL)}, id="function"
        ),
    ],
)
def test_every_documented_field_is_known(
    documented: type, prefix: str, known: Mapping[str, object]
) -> None:
    fields = {name.rstrip("_") for name in get_type_hints(documented)}
    assert fields
    assert {name for name in fields if name not in known and prefix + name not in UNSUPPORTED} == (
        set()
    )


def test_null_is_the_same_as_absent(door: Judge) -> None:
    fields = (
        "instructions max_output_tokens temperature top_p tools tool_choice parallel_tool_calls "
        "text reasoning top_logprobs include stream stream_options metadata user store truncation "
        "previous_response_id conversation background prompt service_tier model nctx spec_type"
    )
    assert door.ask(**dict.fromkeys(fields.split())).output_text == HELLO


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"store": True}, id="store"),
        pytest.param({"store": False, "include": ["reasoning.encrypted_content"]}, id="stateless"),
        pytest.param({"truncation": "disabled"}, id="truncation"),
        pytest.param({"service_tier": "auto"}, id="tier"),
        pytest.param({"background": False}, id="background"),
        pytest.param({"text": {"format": {"type": "text"}, "verbosity": "medium"}}, id="text"),
        pytest.param({"stream_options": {"include_obfuscation": False}}, id="obfuscation"),
        pytest.param({"safety_identifier": "a", "prompt_cache_key": "b"}, id="identifiers"),
        pytest.param({"max_tool_calls": 3}, id="built-in tools"),
        pytest.param({"a_field_of_next_year": 1}, id="unknown"),
    ],
)
def test_what_changes_no_answer_is_taken(door: Judge, fields: dict[str, Any]) -> None:
    response = door.ask(**fields)
    assert response.output_text == HELLO
    assert response.store is False


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"previous_response_id": "resp_1"}, "previous_response_id", id="previous"),
        pytest.param({"conversation": "conv_1"}, "conversation", id="conversation"),
        pytest.param({"background": True}, "background", id="background"),
        pytest.param({"prompt": {"id": "pmpt_1"}}, "prompt", id="prompt"),
        pytest.param({"truncation": "auto"}, "truncation", id="truncation"),
        pytest.param({"service_tier": "flex"}, "service_tier", id="tier"),
        pytest.param({"include": ["file_search_call.results"]}, "include[0]", id="include"),
        pytest.param({"text": {"verbosity": "low"}}, "text.verbosity", id="verbosity"),
        pytest.param({"text": {"format": {"type": "xml"}}}, "text.format", id="format"),
        pytest.param(
            {"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format", id="schema"
        ),
        pytest.param(
            {"text": {"format": {"type": "json_schema", "name": 7, "schema": {}}}},
            "text.format.name",
            id="format's name",
        ),
        pytest.param(
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"not": {}}}}},
            "text.format",
            id="keyword of a schema",
        ),
        pytest.param({"reasoning": {"summary": "detailed"}}, "reasoning.summary", id="summary"),
        pytest.param({"reasoning": {"effort": "huge"}}, "reasoning.effort", id="effort"),
        pytest.param({"tools": [{"type": "web_search"}]}, "tools[0]", id="built-in tool"),
        pytest.param({"tools": [{"type": "mcp"}]}, "tools[0]", id="mcp"),
        pytest.param(
            {"tools": [{**WEATHER, "async": True}]}, "tools[0].async", id="asynchronous tool"
        ),
        pytest.param({"tools": [WEATHER, WEATHER]}, "tools", id="one tool twice"),
        pytest.param({"tool_choice": "required"}, "tool_choice", id="a call without tools"),
        pytest.param({"tool_choice": {"type": "web_search"}}, "tool_choice", id="tool choice"),
        pytest.param(
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
            id="obfuscation",
        ),
        pytest.param({"max_output_tokens": 0}, "max_output_tokens", id="no tokens"),
        pytest.param({"temperature": "warm"}, "temperature", id="type"),
        pytest.param({"top_logprobs": 21}, "top_logprobs", id="range"),
        pytest.param({"metadata": {"a": 1}}, "metadata.a", id="metadata"),
        pytest.param({"input": []}, "input", id="no input"),
        pytest.param({"input": "x" * 5000}, "input", id="too long"),
        pytest.param({"spec_type": "magic"}, "spec_type", id="extras"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    door: Judge, fields: dict[str, Any], param: str
) -> None:
    error = door.refused(**fields)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("fields", "met"),
    [
        pytest.param({"max_output_tokens": 3}, lambda asked: asked.max_tokens == 3, id="limit"),
        pytest.param(
            {"temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": 7},
            lambda asked: (
                asked.sampling
                == replace(asked.sampling, temperature=0, top_p=0.5, top_k=3, min_p=0.1, seed=7)
            ),
            id="sampling",
        ),
        pytest.param({"top_logprobs": 2}, lambda asked: asked.logprobs == 2, id="logprobs"),
        pytest.param(
            {"text": {"format": FORMAT}},
            lambda asked: "Rome" in (asked.sampling.grammar or ""),
            id="format",
        ),
        pytest.param(
            {"text": {"format": {"type": "json_object"}}},
            lambda asked: bool(asked.sampling.grammar),
            id="any JSON",
        ),
        pytest.param(
            {"tools": [WEATHER], "tool_choice": "required"},
            lambda asked: "weather" in (asked.sampling.grammar or ""),
            id="required",
        ),
        pytest.param(
            {"grammar_string": 'root ::= "a"'},
            lambda asked: asked.sampling.grammar == 'root ::= "a"',
            id="grammar",
        ),
    ],
)
def test_a_field_reaches_the_model(
    door: Judge, fields: dict[str, Any], met: Callable[[GenerationRequest], bool]
) -> None:
    door.ask(**fields)
    assert met(door.asked)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param("auto", "auto", id="auto"),
        pytest.param("none", "none", id="none"),
        pytest.param(NAMED, NAMED, id="a function"),
        pytest.param(
            {"type": "function", "function": {"name": "weather"}}, NAMED, id="as in a chat"
        ),
        pytest.param(ALLOWED, ALLOWED, id="allowed tools"),
    ],
)
def test_the_choice_of_a_tool_comes_back(door: Judge, given: Any, told: Any) -> None:
    choice = door.ask(tools=[WEATHER], tool_choice=given).tool_choice
    assert (choice if isinstance(choice, str) else choice.to_dict()) == told


@over(CALLS)
def test_one_call_at_a_time(door: Judge) -> None:
    response = door.ask(tools=[WEATHER], parallel_tool_calls=False)
    assert [item.type for item in response.output] == ["message", "function_call"]
    assert response.parallel_tool_calls is False
