"""The Python API, on the built-in model."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import geniex
from geniex.chat.tools import ToolCallPart
from tests.terminal import environment

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[geniex.Model]:
    with geniex.load("geniex/tiny-chat", data_dir=tmp_path_factory.mktemp("data")) as made:
        yield made


def test_an_answer(model: geniex.Model) -> None:
    answer = model.chat(QUESTION, temperature=0)
    assert str(answer) == answer.content == ANSWER
    assert answer.finish_reason == "stop" and answer.profile.generated_tokens > 1
    assert model.name == "geniex/tiny-chat:Q8_0"


def test_pieces(model: geniex.Model) -> None:
    pieces = list(model.stream(QUESTION, temperature=0))
    assert len(pieces) > 1 and "".join(pieces) == ANSWER


def test_a_chat_and_its_options(model: geniex.Model) -> None:
    chat = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "What is 2 plus 3?"},
    ]
    assert str(model.chat(chat, temperature=0)) == "2 plus 3 is 5."
    assert str(model.chat(QUESTION, temperature=0, stop=[" is"])) == "The capital of France"
    assert model.chat(QUESTION, temperature=0, max_tokens=3).finish_reason == "length"
    thought = model.chat("What is 12 plus 6?", temperature=0, think=True)
    assert "18" in thought.content and thought.reasoning


def test_a_stop_may_be_one_text(model: geniex.Model) -> None:
    for stop in (" is", (" is",), [" is", "never"]):
        assert str(model.chat(QUESTION, temperature=0, stop=stop)) == "The capital of France"
    assert "".join(model.stream(QUESTION, temperature=0, stop="Fr")) == "The capital of "


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
        },
    },
}


def test_a_tool_that_is_required_is_called(model: geniex.Model) -> None:
    answer = model.chat(QUESTION, temperature=0, tools=[WEATHER], tool_choice="required")
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.tool_calls
    assert call.name == "weather" and call.id
    assert json.loads(call.text())["city"] in ("Paris", "Rome")
    pieces = [part for part in answer.parts() if isinstance(part, ToolCallPart)]
    assert pieces[0].name == "weather"
    assert "".join(piece.arguments for piece in pieces) == call.text()


def test_a_format_is_kept_to(model: geniex.Model) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer = model.chat("What is 2 plus 3?", seed=1, response_format=form, max_tokens=60)
    assert isinstance(json.loads(str(answer))["n"], int)


@pytest.mark.parametrize(
    "options",
    [
        {"tools": 5},
        {"tool_choice": "sometimes"},
        {"tool_choice": "required"},
        {"response_format": {"type": "xml"}},
        {"top_p": 7},
        {"top_p": float("nan")},
        {"temperature": -0.1},
        {"temperature": "hot"},
        {"top_k": 1.5},
        {"top_k": 2**40},
        {"min_p": -1},
        {"repetition_penalty": -1},
        {"presence_penalty": float("inf")},
        {"seed": -1},
        {"seed": True},
        {"max_tokens": -5},
        {"max_tokens": "many"},
        {"stop": 5},
        {"stop": [5]},
        {"grammar": 5},
    ],
    ids=str,
)
def test_values_that_cannot_be(model: geniex.Model, options: dict[str, Any]) -> None:
    with pytest.raises(geniex.GenieXError, match=next(iter(options))):
        model.chat(QUESTION, **options)


def test_an_argument_that_does_not_exist(model: geniex.Model) -> None:
    with pytest.raises(TypeError, match="a chat has no argument `top_x`"):
        model.chat(QUESTION, top_x=5)  # type: ignore[call-arg]
    assert str(model.chat(QUESTION, stop=None, temperature=0))


@pytest.mark.parametrize("chat", [5, None, b"hi", {"role": "user"}, ["hi"]], ids=repr)
def test_what_is_no_chat(model: geniex.Model, chat: Any) -> None:
    with pytest.raises(geniex.GenieXError, match=r"chat|message"):
        model.chat(chat)


def test_a_stream_that_is_left_frees_the_model(model: geniex.Model) -> None:
    for _ in model.stream("Tell me a story.", temperature=0):
        break
    assert str(model.chat(QUESTION, temperature=0)) == ANSWER


def test_the_cache_changes_speed_alone(model: geniex.Model, tmp_path: Path) -> None:
    first = model.chat("Tell me a story.", temperature=0)
    again = model.chat("Tell me a story.", temperature=0)
    assert again.profile.cached_tokens == again.profile.prompt_tokens - 1
    assert again.content == first.content


def test_two_models_at_once(model: geniex.Model, tmp_path: Path) -> None:
    with geniex.load(data_dir=tmp_path, nctx=256) as other:
        assert str(other.chat(QUESTION, temperature=0)) == ANSWER
    assert str(model.chat(QUESTION, temperature=0)) == ANSWER


def test_speculation_changes_speed_alone(model: geniex.Model, tmp_path: Path) -> None:
    plain = model.chat("Tell me about the owl.", temperature=0)
    draft = {"spec_type": "draft-mtp", "draft_model": "geniex/tiny-chat-draft"}
    for how in (draft, {"spec_type": "auto"}):
        with geniex.load("tiny", data_dir=tmp_path, draft_adapt=False, **how) as other:  # type: ignore[arg-type]
            answer = other.chat("Tell me about the owl.", temperature=0).result()
        assert answer.content == plain.content and other.warnings == ()
        assert 0 < answer.profile.draft_accepted <= answer.profile.draft_proposed
    assert plain.profile.draft_proposed == 0


def test_a_draft_is_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(geniex.GenieXError, match="resolve draft model") as caught:
        geniex.load("tiny", data_dir=tmp_path, spec_type="draft-mtp", draft_model="org/none")
    assert "geniex pull org/none" in str(caught.value.hint)
    with pytest.raises(geniex.GenieXError, match="nothing without a type"):
        geniex.load("tiny", data_dir=tmp_path, draft_model="geniex/tiny-chat-draft")


@pytest.mark.parametrize(
    "options",
    [
        {"name": 5},
        {"name": ""},
        {"nctx": "many"},
        {"nctx": 0},
        {"ngl": -2},
        {"threads": 0},
        {"spec_type": "draft-mtp", "draft_tokens": "many"},
        {"spec_type": "draft-mtp", "draft_model": ""},
        {"runtime": "none"},
    ],
    ids=str,
)
def test_loads_that_cannot_be(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(geniex.GenieXError):
        geniex.load(**{"data_dir": tmp_path, "name": "tiny", **options})


def test_a_path_is_a_name(tiny_chat: Path, tmp_path: Path) -> None:
    with geniex.load(tiny_chat, data_dir=tmp_path, nctx=256) as other:
        assert other.name == str(tiny_chat)


def test_errors_are_of_one_tree(model: geniex.Model, tmp_path: Path) -> None:
    with pytest.raises(geniex.GenieXError, match="org/none"):
        geniex.load("org/none", data_dir=tmp_path)
    with pytest.raises(geniex.GenieXError):
        model.chat([{"content": "nobody said this"}])


def test_the_names_are_there_and_load_late() -> None:
    assert all(getattr(geniex, name) for name in geniex.__all__)
    assert set(geniex.__all__) <= set(dir(geniex))
    with pytest.raises(AttributeError, match="nonsense"):
        geniex.nonsense  # noqa: B018
    script = "import geniex, sys; print(len([n for n in sys.modules if n.startswith('geniex')]))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=environment(), check=True
    )
    assert done.stdout.strip() == b"1"


def test_a_stream_whose_model_is_closed_does_not_end_as_if_it_were_whole(tmp_path: Path) -> None:
    model = geniex.load("tiny", data_dir=tmp_path)
    stream = model.stream("Spell.", temperature=0, grammar="root ::= [a-z] root")  # never ends
    next(stream)
    model.close()
    with pytest.raises(geniex.GenieXError, match="closed"):
        list(stream)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"spec_type": 5}, id="spec-type-number"),
        pytest.param({"spec_type": ["auto"]}, id="spec-type-list"),
        pytest.param({"spec_type": "draft-mtp", "draft_model": 5}, id="draft-number"),
    ],
)
def test_words_on_speculation_that_are_no_text(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(geniex.GenieXError, match="takes a text"):
        geniex.load(**{"data_dir": tmp_path, "name": "tiny", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["spec_n_max", "paths"])
def test_a_keyword_that_load_does_not_have(tmp_path: Path, word: str) -> None:
    with pytest.raises(TypeError, match=rf"^load\(\) got .* '{word}'"):
        geniex.load("tiny", data_dir=tmp_path, spec_type="auto", **{word: 0})  # type: ignore[arg-type]
