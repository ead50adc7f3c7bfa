"""The face in the words of transformers, on the built-in pair."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import geniex
from geniex.auto_model import GenerateOutput, GenieXLLM, TextIteratorStreamer
from geniex_runtimes.fake import FakeRuntime, Script
from tests.hubserver import HubServer

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenieXLLM]:
    data_dir = tmp_path_factory.mktemp("data")
    with geniex.AutoModelForCausalLM.from_pretrained("tiny", data_dir=data_dir) as made:
        yield made


def test_a_prompt_and_its_answer(model: GenieXLLM) -> None:
    prompt = model.tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True)
    output = model.generate(prompt, temperature=0)
    assert isinstance(output, GenerateOutput)
    assert str(output) == output.text == ANSWER and output.thinking == ""
    assert output.finish_reason == "stop" and output.profile.generated_tokens > 1


def test_tokens_are_a_prompt_too(model: GenieXLLM) -> None:
    tokens = model.tokenizer.apply_chat_template(QUESTION, tokenize=True)
    text = model.tokenizer.apply_chat_template(QUESTION)
    assert model.tokenizer.encode(text) == tokens
    assert model.tokenizer.decode(tokens).endswith(text)
    assert model.generate(tokens, do_sample=False).text == ANSWER


def test_a_stream(model: GenieXLLM) -> None:
    prompt = model.tokenizer.apply_chat_template(QUESTION)
    streamer = model.generate(prompt, temperature=0, stream=True)
    assert isinstance(streamer, TextIteratorStreamer)
    pieces = list(streamer)
    assert len(pieces) > 1 and "".join(pieces) == streamer.output.text == ANSWER


def test_thinking_is_no_text(model: GenieXLLM) -> None:
    chat = [{"role": "user", "content": "What is 12 plus 6?"}]
    prompt = model.tokenizer.apply_chat_template(chat, enable_thinking=True)
    streamer = model.generate(prompt, temperature=0, stream=True)
    assert "18" in "".join(streamer)
    assert streamer.output.thinking and "think" not in streamer.output.text


def test_a_stream_that_is_cancelled_keeps_what_came(scripted: Any, tmp_path: Path) -> None:
    scripted(FakeRuntime(Script(("word ",) * 3000, delay=0.01), name="llama_cpp"))
    with geniex.AutoModelForCausalLM.from_pretrained("tiny", data_dir=tmp_path) as model:
        streamer = model.generate("hi", stream=True, max_new_tokens=None)
        next(iter(streamer))
        streamer.cancel()
        assert streamer.output.text.startswith("word ")
        assert streamer.output.finish_reason == "cancelled"


def test_reset_has_all_of_a_prompt_evaluated(model: GenieXLLM) -> None:
    prompt = model.tokenizer.apply_chat_template(QUESTION)
    first = model.generate(prompt, temperature=0)
    assert model.generate(prompt, temperature=0).profile.cached_tokens > 0
    model.reset()
    again = model.generate(prompt, temperature=0)
    assert again.profile.cached_tokens == 0 and again.text == first.text
    assert model.generate(prompt, temperature=0).profile.cached_tokens > 0


def test_speculation_by_the_names_of_the_server(tmp_path: Path, model: GenieXLLM) -> None:
    prompt = model.tokenizer.apply_chat_template([{"role": "user", "content": "Tell me a story."}])
    plain = model.generate(prompt, temperature=0)
    with geniex.AutoModelForCausalLM.from_pretrained(
        "geniex/tiny-chat",
        precision="Q8_0",
        device_map={"": "cpu"},
        n_ctx=1024,
        spec_type="draft-mtp",
        spec_draft_model="geniex/tiny-chat-draft",
        spec_n_max=2,
        data_dir=tmp_path,
    ) as pair:
        assert pair.name == "geniex/tiny-chat:Q8_0" and pair.warnings == ()
        assert pair.generate(prompt, temperature=0).text == plain.text


def test_what_is_not_here_is_pulled(hub: HubServer, tiny_chat: Path, tmp_path: Path) -> None:
    hub.add("org/repo", {"m-Q8_0.gguf": tiny_chat.read_bytes()})
    load = geniex.AutoModelForCausalLM.from_pretrained
    with pytest.raises(geniex.GenieXError, match="org/repo"):
        load("org/repo", data_dir=tmp_path, local_files_only=True)
    with load("org/repo", data_dir=tmp_path) as model:
        assert model.name == "org/repo:Q8_0"
    with load("org/repo", data_dir=tmp_path, local_files_only=True) as model:
        prompt = model.tokenizer.apply_chat_template(QUESTION)
        assert model.generate(prompt, temperature=0).text == ANSWER


@pytest.mark.parametrize(
    ("how", "told"),
    [
        pytest.param({"device_map": {"a": "cpu", "b": "gpu"}}, "several devices", id="split"),
        pytest.param({"device_map": "abacus!"}, "no compute unit", id="no-such-device"),
        pytest.param({"precision": "Q2_K"}, "Q2_K", id="no-such-precision"),
        pytest.param({"n_ctx": -5}, "^n_ctx: -5 is too small", id="context"),
        pytest.param({"spec_draft_model": "geniex/tiny-chat-draft"}, "without a type", id="draft"),
    ],
)
def test_what_cannot_be_loaded(tmp_path: Path, how: dict[str, Any], told: str) -> None:
    with pytest.raises(geniex.GenieXError, match=told):
        geniex.AutoModelForCausalLM.from_pretrained("tiny", data_dir=tmp_path, **how)


def test_none_is_the_models_own_choice(model: GenieXLLM) -> None:
    prompt = model.tokenizer.apply_chat_template(QUESTION)
    assert model.generate(prompt, stop=None, top_k=None, temperature=0).text == ANSWER


@pytest.mark.parametrize(
    ("prompt", "how", "told"),
    [
        pytest.param("hi", {"max_new_tokens": "3"}, "for `max_new_tokens`", id="length"),
        pytest.param("hi", {"stop": 5}, "`stop` takes a text", id="stop"),
        pytest.param(5, {}, "a prompt is a text", id="number"),
        pytest.param(None, {}, "a prompt is a text", id="none"),
    ],
)
def test_words_of_this_face(model: GenieXLLM, prompt: Any, how: dict[str, Any], told: str) -> None:
    with pytest.raises(geniex.GenieXError, match=told):
        model.generate(prompt, **how)


def test_a_prompt_too_long_names_the_keyword(model: GenieXLLM) -> None:
    with pytest.raises(geniex.GenieXError) as caught:
        model.generate("word " * 9000)
    assert "`n_ctx`" in str(caught.value.hint)


def test_what_cannot_be_generated(model: GenieXLLM) -> None:
    with pytest.raises(geniex.GenieXError, match="top_p"):
        model.generate("hi", top_p=7)
    with pytest.raises(TypeError, match="num_beams"):
        model.generate("hi", num_beams=4)  # type: ignore[call-overload]
    with pytest.raises(geniex.GenieXError, match="list of messages"):
        model.tokenizer.apply_chat_template("hi")  # type: ignore[arg-type]
