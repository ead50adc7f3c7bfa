"""What each field of a chat completion does."""

from pathlib import Path
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from geniex.server.chat_completions.protocol import ChatRequest
from tests.geniex.server.chat_completions.conftest import Over
from tests.geniex.server.chat_completions.official import MODEL, WEATHER, answered, chunks
from tests.geniex.server.door import GREETING, HELLO, Door

# what each documented field may be set to, and what is expected of it
OFFICIAL: dict[str, tuple[object, str]] = {
    "messages": (GREETING, "honoured"),
    "model": (MODEL, "honoured"),
    "audio": ({"voice": "alloy", "format": "wav"}, "refused"),
    "frequency_penalty": (0.5, "honoured"),
    "function_call": ("auto", "refused"),
    "functions": ([{"name": "weather"}], "refused"),
    "logit_bias": ({"65": -5}, "honoured"),
    "logprobs": (True, "honoured"),
    "max_completion_tokens": (3, "honoured"),
    "max_tokens": (3, "honoured"),
    "metadata": ({"trip": "7"}, "harmless"),
    "modalities": (["text", "audio"], "refused"),
    "moderation": ({"policy": {}}, "refused"),
    "n": (2, "honoured"),
    "parallel_tool_calls": (False, "honoured"),
    "prediction": ({"type": "content", "content": "Hello"}, "refused"),
    "presence_penalty": (0.5, "honoured"),
    "prompt_cache_key": ("k", "harmless"),
    "prompt_cache_options": ({"mode": "explicit"}, "refused"),
    "prompt_cache_retention": ("24h", "refused"),
    "reasoning_effort": ("low", "honoured"),
    "response_format": ({"type": "json_object"}, "honoured"),
    "safety_identifier": ("s", "harmless"),
    "seed": (7, "honoured"),
    "service_tier": ("flex", "refused"),
    "stop": (["x"], "honoured"),
    "store": (True, "refused"),
    "stream_options": ({"include_usage": True}, "honoured"),
    "temperature": (0.5, "honoured"),
    "tool_choice": ("none", "honoured"),
    "tools": ([WEATHER], "honoured"),
    "top_logprobs": (2, "honoured"),
    "top_p": (0.5, "honoured"),
    "user": ("u", "harmless"),
    "verbosity": ("low", "refused"),
    "web_search_options": ({}, "refused"),
}
# fields that are refused without another one
_COMPANY: dict[str, dict[str, object]] = {
    "top_logprobs": {"logprobs": True},
    "stream_options": {"stream": True},
}


def test_the_table_knows_every_documented_field() -> None:
    assert OFFICIAL.keys() == CompletionCreateParamsBase.__annotations__.keys()


@pytest.mark.parametrize(
    "name", [name for name, (_, expected) in OFFICIAL.items() if expected == "refused"]
)
def test_what_cannot_be_honoured_is_refused_by_name(chat: Door, name: str) -> None:
    given: dict[str, Any] = {name: OFFICIAL[name][0]}
    error = chat.refused(**given)
    assert error["param"] == name
    assert error["code"] == "unsupported_parameter"
    assert f"`{name}`" in error["message"]


@pytest.mark.parametrize(
    "name", [name for name, (_, expected) in OFFICIAL.items() if expected != "refused"]
)
def test_every_other_field_is_answered(chat: Door, name: str) -> None:
    fields = {**_COMPANY.get(name, {}), name: OFFICIAL[name][0]}
    assert chat.post(**fields).status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modalities", ["text"]),
        ("prompt_cache_options", {"mode": "implicit"}),
        ("prompt_cache_retention", "in_memory"),
        ("service_tier", "auto"),
        ("service_tier", "default"),
        ("store", False),
        ("verbosity", "medium"),
    ],
)
def test_values_that_ask_for_what_happens_anyway_are_taken(
    chat: Door, name: str, value: object
) -> None:
    answered(chat, **{name: value})


def test_null_is_the_same_as_absent(chat: Door) -> None:
    answered(chat)
    plain = chat.runtime.asked
    known = {*OFFICIAL, *door_fields()} - {"messages"}
    answered(chat, **dict.fromkeys(known))
    assert chat.runtime.asked == plain


def door_fields() -> list[str]:
    """The fields of the request as the OpenAPI document has them."""
    return [*ChatRequest.model_fields]


def test_unknown_fields_are_ignored(chat: Door) -> None:
    answered(chat, frobnicate=3, top_a=0.1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 1.5, "top_p": 0.5}, {"temperature": 1.5, "top_p": 0.5}),
        ({"top_k": 3, "min_p": 0.1}, {"top_k": 3, "min_p": 0.1}),
        ({"repetition_penalty": 1.2}, {"repetition_penalty": 1.2}),
        ({"presence_penalty": -1, "frequency_penalty": 2}, {"presence_penalty": -1}),
        ({"logit_bias": {"65": -100, "66": 2.5}}, {"logit_bias": ((65, -100.0), (66, 2.5))}),
        ({"grammar_string": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}),
        ({"seed": 0}, {"seed": 0}),
        ({"seed": 4294967295}, {"seed": 4294967295}),
    ],
)
def test_sampling_fields_reach_the_model(
    chat: Door, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    answered(chat, **fields)
    sampling = chat.runtime.asked.sampling
    assert {name: getattr(sampling, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 7}, 7),
        ({"max_completion_tokens": 7, "max_tokens": 5}, 5),
        ({"max_tokens": -1}, None),
        ({"max_tokens": 10**12}, 10**12),
    ],
)
def test_limits_reach_the_model(chat: Door, fields: dict[str, Any], expected: int | None) -> None:
    answered(chat, **fields)
    assert chat.runtime.asked.max_tokens == expected
    assert len(chat.runtime.models) == 1


@pytest.mark.parametrize(
    ("stop", "content"),
    [
        ("world", "Hello, "),
        (["wor", "never"], "Hello, "),
        ([], HELLO),
        (["a", "b", "c", "x", "y", "!"], "Hello, world"),
    ],
)
def test_stop_strings_end_the_answer(chat: Door, stop: Any, content: str) -> None:
    choice = answered(chat, stop=stop).choices[0]
    assert (choice.message.content, choice.finish_reason) == (content, "stop")
    assert "".join(c.choices[0].delta.content or "" for c in chunks(chat, stop=stop)) == content


def test_a_limit_ends_the_answer_with_length(chat: Door) -> None:
    choice = answered(chat, max_tokens=2).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Hello, ", "length")


def test_load_fields_reach_the_load(over: Over) -> None:
    door = over()
    answered(door, nctx=512, ngl=0, compute="CPU")
    assert door.runtime.loads[-1].context_length == 512
    answered(door, nctx=256)
    assert [load.context_length for load in door.runtime.loads] == [512, 256]


@pytest.mark.parametrize(
    ("keep_alive", "least", "most"),
    [(30, 0.0, 30.0), (None, 200.0, 300.0), (0.5, 0.0, 0.5)],
)
def test_keep_alive_counts_from_the_end(
    over: Over, keep_alive: float | None, least: float, most: float
) -> None:
    door = over()
    answered(door, keep_alive=keep_alive)
    for resident in door.state.pool.residents():
        assert resident.expires_in is not None
        assert least <= resident.expires_in <= most


def test_keep_alive_below_zero_is_for_ever(over: Over) -> None:
    door = over()
    answered(door, keep_alive=-1)
    (resident,) = door.state.pool.residents()
    assert resident.expires_in is None


def test_a_grammar_is_read_from_the_operators_folder(chat: Door, grammars: Path) -> None:
    (grammars / "yes.gbnf").write_text('root ::= "yes"')
    answered(chat, grammar_path="yes.gbnf")
    assert chat.runtime.asked.sampling.grammar == 'root ::= "yes"'


@pytest.mark.parametrize("path", ["../secret", "/etc/hosts", "missing", "link", ".", "\0"])
def test_a_grammar_from_elsewhere_is_refused(chat: Door, grammars: Path, path: str) -> None:
    (grammars.parent / "secret").write_text("root ::= secret")
    (grammars / "link").unlink(missing_ok=True)
    (grammars / "link").symlink_to(grammars.parent / "secret")
    error = chat.refused(grammar_path=path)
    assert error["param"] == "grammar_path"
    assert "secret" not in error["message"] and "hosts" not in error["message"]


def test_a_grammar_that_is_too_large_is_refused(chat: Door, grammars: Path) -> None:
    (grammars / "large.gbnf").write_text('root ::= "a"\n' + "#" * (1 << 20))
    assert "1 MiB" in chat.refused(grammar_path="large.gbnf")["message"]


def test_no_folder_no_grammar_path(over: Over) -> None:
    assert over().refused(grammar_path="yes.gbnf")["param"] == "grammar_path"
