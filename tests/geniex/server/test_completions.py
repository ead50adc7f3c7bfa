"""`POST /v1/completions`: objects and chunks as the official client's types have them."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai.types import Completion
from openai.types.completion_create_params import CompletionCreateParamsBase

from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import FakeModel, Script
from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.door import HELLO, Door, Runtime, opened

MODEL = "geniex/tiny-chat:Q8_0"
PATH = "/v1/completions"
DEFAULTS = {"prompt": "Hi"}
Over = Callable[..., Door]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server that greets, one for the module."""
    with opened(Runtime(), tmp_path_factory.mktemp("data"), PATH, DEFAULTS) as made:
        yield made


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Over]:
    """Makes servers over other runtimes."""
    with ExitStack() as stack:
        yield lambda runtime: stack.enter_context(opened(runtime, tmp_path, PATH, DEFAULTS))


def completed(door: Door, **fields: Any) -> Completion:
    """A completion, held to the official type."""
    response = door.post(**fields)
    assert response.status_code == 200, response.text
    completion: Completion = strictly(Completion, response.content)
    return completion


def chunks(door: Door, **fields: Any) -> list[Completion]:
    """The chunks of a stream; the type has no null for the reason that comes last."""
    *data, done = door.events(**fields)
    assert done == "[DONE]"
    for text in data:
        assert all("finish_reason" in choice for choice in json.loads(text)["choices"])
    return [
        strictly(Completion, t.replace('"finish_reason":null', '"finish_reason":"stop"'))
        for t in data
    ]


def texts(streamed: list[Completion]) -> dict[int, str]:
    """The text of each choice of a stream."""
    told: dict[int, str] = {}
    for chunk in streamed:
        for choice in chunk.choices:
            told[choice.index] = told.get(choice.index, "") + choice.text
    return told


def test_a_completion_is_whole(door: Door) -> None:
    completion = completed(door)
    (choice,) = completion.choices
    assert (choice.index, choice.text, choice.logprobs) == (0, HELLO, None)
    assert choice.finish_reason == "stop"
    assert completion.id.startswith("cmpl-")
    assert completion.model == MODEL
    usage = completion.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 4, 7)
    assert (completion.model_extra or {})["geniex"]["runtime"] == "fake"


def test_both_paths(door: Door) -> None:
    response = door.client.post("/completions", json=DEFAULTS)
    assert response.json()["choices"][0]["text"] == HELLO


def test_nothing_is_split_off(over: Over) -> None:
    door = over(Runtime(Script(("<think>", "hm", "</think>", "18"))))
    assert completed(door).choices[0].text == "<think>hm</think>18"
    assert texts(chunks(door)) == {0: "<think>hm</think>18"}


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("Hi", [PromptPiece("Hi")]),
        (["Hi"], [PromptPiece("Hi")]),
        ([72, 105], [72, 105]),
        ([[72, 105]], [72, 105]),
        ("Hi</s>", [PromptPiece("Hi</s>")]),
    ],
    ids=["text", "texts", "tokens", "token lists", "special tokens"],
)
def test_prompts_of_every_form(door: Door, prompt: Any, asked: Any) -> None:
    completed(door, prompt=prompt)
    assert list(door.runtime.asked.prompt) == asked


def test_several_prompts_and_choices_are_numbered_in_order(over: Over) -> None:
    door = over(Runtime(*(Script((word,)) for word in ("a", "b", "c", "d"))))
    completion = completed(door, prompt=["One", "Seven"], n=2, seed=1)
    assert [(c.index, c.text) for c in completion.choices] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
    ]
    usage = completion.usage
    assert usage is not None
    # each prompt counts once, with the token at its beginning
    assert (usage.prompt_tokens, usage.completion_tokens) == (len("One") + len("Seven") + 2, 4)
    asked = door.runtime.models[-1].requests
    assert len({(a.sampling.seed, str(a.prompt)) for a in asked}) == 4


@pytest.mark.parametrize(("given", "most"), [(None, 16), (3, 3), (0, 0), (-1, None)])
def test_the_limit_is_sixteen_unless_given(door: Door, given: int | None, most: int | None) -> None:
    completed(door, max_tokens=given)
    assert door.runtime.asked.max_tokens == most


@pytest.mark.parametrize("prompt", ["Hi ", [72, 105, 32]], ids=["text", "tokens"])
def test_echo_gives_the_prompt_first(door: Door, prompt: Any) -> None:
    assert completed(door, prompt=prompt, echo=True).choices[0].text == f"Hi {HELLO}"
    assert texts(chunks(door, prompt=prompt, echo=True)) == {0: f"Hi {HELLO}"}


def test_an_echo_of_half_a_character_can_be_sent(door: Door) -> None:
    assert completed(door, prompt="a\ud800", echo=True).choices[0].text == f"a?{HELLO}"
    assert texts(chunks(door, prompt="a\ud800", echo=True)) == {0: f"a?{HELLO}"}


@pytest.mark.parametrize("usage", [False, True], ids=["plain", "usage"])
def test_a_stream_is_in_order(door: Door, usage: bool) -> None:
    options: Any = {"stream_options": {"include_usage": True}} if usage else {}
    streamed = door.stream(**options)
    told = streamed[:-1] if usage else streamed
    assert [chunk["choices"][0]["finish_reason"] for chunk in told] == [None] * 4 + ["stop"]
    assert ["geniex" in chunk for chunk in streamed] == [False] * (len(streamed) - 1) + [True]
    assert texts(chunks(door, **options)) == {0: HELLO}
    if usage:
        assert streamed[-1]["choices"] == []
        assert streamed[-1]["usage"]["completion_tokens"] == 4
        assert all(chunk["usage"] is None for chunk in told)


@pytest.mark.parametrize("stop", ["world", ["wor", "x"]])
def test_stop_strings_end_the_answer(door: Door, stop: Any) -> None:
    assert completed(door, stop=stop).choices[0].text == "Hello, "


@pytest.mark.parametrize(("count", "alternatives"), [(0, None), (2, 2)])
def test_logprobs_are_columns(door: Door, count: int, alternatives: int | None) -> None:
    logprobs = completed(door, logprobs=count).choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens == ["Hello", ", ", "world", "!"]
    assert logprobs.text_offset == [0, 5, 7, 12]
    assert logprobs.token_logprobs is not None and len(logprobs.token_logprobs) == 4
    if alternatives is None:
        assert logprobs.top_logprobs is None
    else:
        assert logprobs.top_logprobs is not None
        assert all(len(top) == alternatives for top in logprobs.top_logprobs)
    columns: dict[str, list[Any]] = {"tokens": [], "text_offset": [], "token_logprobs": []}
    for chunk in chunks(door, logprobs=count):
        for choice in chunk.choices:
            for name, column in columns.items():
                column += getattr(choice.logprobs, name, None) or []
    assert columns == {name: getattr(logprobs, name) for name in columns}


def test_speculation_is_set_up(over: Over) -> None:
    door = over(Runtime(Script(("a",) * 4, drafts=((3, 2),))))
    usage = completed(door, spec_type="ngram-simple", spec_n_max=4).usage
    assert door.runtime.loads[-1].speculative.n_max == 4
    assert usage is not None and usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.accepted_prediction_tokens == 2
    assert usage.completion_tokens_details.rejected_prediction_tokens == 1


# -- every documented field

HONOURED: dict[str, Any] = {
    "model": MODEL,
    "prompt": "Hi",
    "best_of": 1,
    "echo": True,
    "frequency_penalty": 0.5,
    "logit_bias": {"65": -5},
    "logprobs": 1,
    "max_tokens": 3,
    "n": 2,
    "presence_penalty": 0.5,
    "seed": 7,
    "stop": ["x"],
    "temperature": 0,
    "top_p": 0.5,
    "user": "u",
}
# with another field, or by a model with tokens for it
SPECIAL = {"suffix", "stream_options"}


def test_the_tables_know_every_documented_field() -> None:
    assert HONOURED.keys() | SPECIAL == CompletionCreateParamsBase.__annotations__.keys()


@pytest.mark.parametrize("name", HONOURED)
def test_every_documented_field_is_answered(door: Door, name: str) -> None:
    completed(door, **{name: HONOURED[name]})


def test_null_is_the_same_as_absent(door: Door) -> None:
    completed(door)
    plain = door.runtime.asked
    completed(door, **dict.fromkeys((HONOURED.keys() | SPECIAL) - {"prompt"}))
    assert door.runtime.asked == plain


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"n": 2, "best_of": 3}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"logprobs": 21}, "logprobs"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"grammar_path": "x"}, "grammar_path"),
        ({"model": "/etc/hosts"}, "model"),
    ],
)
def test_what_cannot_be_is_refused_by_name(door: Door, fields: dict[str, Any], param: str) -> None:
    assert door.refused(**fields)["param"] == param


@pytest.mark.parametrize("token", [-1, 258, 2**40])
def test_a_token_that_is_none_is_refused(door: Door, token: int) -> None:
    error = door.refused(prompt=[token])
    assert str(token) in error["message"]
    assert error["param"] == "prompt"


def test_an_error_after_the_first_byte_is_an_event(over: Over) -> None:
    error = GenerationError("the device is gone")
    door = over(Runtime(Script(error=error, error_after=2)))
    assert json.loads(door.events()[-1])["error"]["code"] == "generation_failed"
    assert door.refused(500)["code"] == "generation_failed"


class Coder(Runtime):
    """A runtime whose models have the tokens to fill in the middle."""

    def load(self, *given: Any, **options: Any) -> FakeModel:
        model = super().load(*given, **options)
        marks = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}
        known = model.info.control_tokens | marks
        model._info = replace(model.info, control_tokens=known)
        return model


def test_a_suffix_is_put_into_the_models_own_tokens(over: Over) -> None:
    door = over(Coder())
    assert completed(door, prompt="a = </s>", suffix="\nprint(a)").choices[0].text == HELLO
    text = "<fim_prefix>a = </s><fim_suffix>\nprint(a)<fim_middle>"
    # the end of a text in the user's own words is words
    assert list(door.runtime.asked.prompt) == [256, *text.encode()]
    assert door.refused(prompt=[72], suffix="x")["param"] == "suffix"
