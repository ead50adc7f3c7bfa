"""The runtime through its public door, on the built-in tiny model."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from geniex_catalogue.errors import LoadError, UsageError
from geniex_runtimes.contract import Done, GenerationRequest, PromptPiece, Runtime, TextEvent
from geniex_runtimes.errors import ContextLengthError, GenerationError
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.llama_cpp.vocab import Vocab
from geniex_runtimes.options import LoadOptions, SamplingOptions
from tests.geniex_runtimes.llama_cpp.answers import GREEDY, answer, load, resolved, turn

PARIS = "The capital of France is Paris."
QUESTION = turn("What is the capital of France?")


def test_is_a_runtime() -> None:
    runtime: Runtime = LlamaCppRuntime()
    assert runtime.availability().available
    assert runtime.availability().version


def test_a_right_answer_and_its_profile(tiny: LlamaCppModel) -> None:
    result = answer(tiny, QUESTION, reuse_prefix=False)
    profile = result.done.profile
    assert result.text == PARIS
    assert result.done.finish_reason == "stop" and profile.stop_reason == "eos"
    assert profile.prompt_tokens == len(tiny.tokenize([PromptPiece(QUESTION)]))
    assert (profile.cached_tokens, profile.prefilled_tokens) == (0, profile.prompt_tokens)
    assert profile.generated_tokens == len(tiny.tokenize([PromptPiece(PARIS)]))  # BOS for EOS
    assert profile.ttft > 0 and profile.decode_time > 0 and profile.decode_speed > 0
    assert len(result.pieces) > 3, "the answer streams"


@pytest.mark.parametrize(
    ("fields", "text", "finish", "stop_reason"),
    [
        pytest.param({"max_tokens": 3}, "The capital of", "length", "length", id="max-tokens"),
        pytest.param({"max_tokens": 1}, "The", "length", "length", id="one-token"),
        pytest.param({"max_tokens": 0}, "", "length", "length", id="no-token"),
        pytest.param({"stop": (" Paris",)}, "The capital of France is", "stop", "stop", id="stop"),
        pytest.param({"stop": ("ital of",)}, "The cap", "stop", "stop", id="stop-across-tokens"),
        pytest.param({"stop": ("Paris.", "is P")}, "The capital of France ", "stop", "stop",
                     id="earliest-stop"),
        pytest.param({"stop": (".",)}, PARIS[:-1], "stop", "stop", id="stop-at-the-last-token"),
        pytest.param({"stop": ("Paris. And",)}, PARIS, "stop", "eos", id="half-a-stop-at-the-end"),
    ],
)  # fmt: skip
def test_where_an_answer_ends(
    tiny: LlamaCppModel, fields: dict[str, object], text: str, finish: str, stop_reason: str
) -> None:
    result = answer(tiny, QUESTION, **fields)
    assert (result.text, result.done.finish_reason) == (text, finish)
    assert result.done.profile.stop_reason == stop_reason


def test_a_prompt_longer_than_the_context_is_refused(tiny: LlamaCppModel) -> None:
    prompt = [5] * (tiny.info.context_length + 1)
    with pytest.raises(ContextLengthError) as error:
        tiny.generate(GenerationRequest(prompt))
    assert (error.value.prompt_tokens, error.value.context_length) == (len(prompt), 1024)
    assert answer(tiny, QUESTION).text == PARIS, "it left nothing behind"


def test_a_prompt_of_megabytes_is_refused_without_being_tokenized(
    tiny: LlamaCppModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "the owl and the fox " * 100_000
    whole = len(tiny.tokenize([PromptPiece(text[: len(text) // 50])])) * 50
    monkeypatch.setattr(Vocab, "tokenize", lambda *_: pytest.fail("tokenized"))
    with pytest.raises(ContextLengthError, match="at least") as caught:
        tiny.generate(GenerationRequest([PromptPiece(text)]))
    assert tiny.info.context_length < caught.value.prompt_tokens <= whole


def test_a_context_that_fills_ends_with_length_and_keeps_the_text(tiny_chat: Path) -> None:
    question = turn("Tell me a short story about a fox.")
    with load(tiny_chat, context_length=1024) as model:
        whole = answer(model, question)
        room = whole.done.profile.prompt_tokens + 10
    with load(tiny_chat, context_length=room) as model:
        cut = answer(model, question)
    assert cut.done.finish_reason == "length" and cut.done.profile.stop_reason == "context"
    assert cut.text and whole.text.startswith(cut.text)
    assert cut.done.profile.generated_tokens == 11, "every cell is used, and one token more"


def test_a_prompt_that_fills_the_context_gives_one_token(tiny_chat: Path) -> None:
    with load(tiny_chat, context_length=40) as model:
        result = answer(model, [2] + [300] * 39)
        assert result.done.profile.generated_tokens == 1
        assert result.done.profile.stop_reason in ("context", "eos")


@pytest.mark.parametrize(
    ("token", "named"), [pytest.param(99999, "99999", id="high"), pytest.param(-1, "-1", id="low")]
)
def test_tokens_outside_the_vocabulary(tiny: LlamaCppModel, token: int, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        tiny.generate(GenerationRequest([token]))


def test_an_empty_prompt_is_the_bos_alone(tiny: LlamaCppModel) -> None:
    assert answer(tiny, "", max_tokens=1).done.profile.prompt_tokens == 1


def test_two_models_load_and_free_without_leaking(tiny_chat: Path, tiny_chat_draft: Path) -> None:
    assert tiny_chat_draft.exists()

    def round_trip() -> None:
        with load(tiny_chat) as one, load(tiny_chat, slots=2) as two:
            assert answer(one, QUESTION).text == answer(two, QUESTION).text == PARIS

    round_trip()
    process = psutil.Process()
    before = process.memory_info().rss
    for _ in range(8):
        round_trip()
    assert process.memory_info().rss - before < 30e6
    assert process.num_threads() < 40


def test_closing_twice_is_fine_and_a_closed_model_says_so(tiny_chat: Path) -> None:
    model = load(tiny_chat)
    model.close()
    model.close()
    for use in (
        lambda: model.generate(GenerationRequest([5])),
        lambda: model.generate(GenerationRequest([PromptPiece("x")])),
        lambda: model.tokenize([PromptPiece("x")]),
        lambda: model.detokenize([5]),
    ):
        with pytest.raises(GenerationError, match="closed"):
            use()


def test_a_long_text_that_is_tokenized_keeps_nobody_waiting(
    tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, begun, on = Vocab.tokenize, threading.Event(), threading.Event()

    def slow(self: Vocab, prompt: Sequence[PromptPiece]) -> list[int]:
        if prompt[0].text == "slow":
            begun.set()
            assert on.wait(60)
        return plain(self, prompt)

    monkeypatch.setattr(Vocab, "tokenize", slow)
    with ThreadPoolExecutor(2) as pool:
        model = load(tiny_chat)
        reading = pool.submit(model.tokenize, [PromptPiece("slow")])
        assert begun.wait(60)
        try:
            assert pool.submit(answer, model, QUESTION).result(60).text == PARIS
            # the weights stay for who still reads them
            closing = pool.submit(model.close)
            with pytest.raises(TimeoutError):
                closing.result(0.2)
        finally:
            on.set()
        assert reading.result(60) and closing.result(60) is None


def test_closing_ends_running_answers(tiny_chat: Path) -> None:
    model = load(tiny_chat)
    running = model.generate(
        GenerationRequest([PromptPiece("Once")], SamplingOptions(logit_bias=((16, -99.0),)))
    )
    assert isinstance(next(running), TextEvent)
    model.close()
    *_, last = running
    assert isinstance(last, Done) and last.finish_reason == "cancelled"


def test_a_file_that_llama_cpp_refuses(tmp_path: Path, tiny_chat: Path) -> None:
    broken = tmp_path / "broken.gguf"
    data = tiny_chat.read_bytes().replace(b"gemma4.block_count", b"gemma4.block_cound", 1)
    broken.write_bytes(data)
    with pytest.raises(LoadError, match=r"broken\.gguf"):
        load(broken)


def test_a_load_can_be_given_up(tiny_chat: Path) -> None:
    with pytest.raises(LoadError):
        LlamaCppRuntime().load(resolved(tiny_chat), LoadOptions(), progress=lambda fraction: False)


def test_native_lines_stay_off_the_terminal(
    capfd: pytest.CaptureFixture[str], tiny_chat: Path
) -> None:
    with load(tiny_chat) as model:
        answer(model, QUESTION)
        with pytest.raises(UsageError, match="grammar"):
            answer(model, QUESTION, sampling=SamplingOptions(grammar='root ::= "a" ('))
    assert capfd.readouterr() == ("", "")


def test_an_unknown_device_is_named(tiny_chat: Path) -> None:
    with pytest.raises(UsageError, match="HTP7"):
        load(tiny_chat, devices=("HTP7",), compute="npu")


def test_special_tokens_that_a_user_types_stay_text(tiny: LlamaCppModel) -> None:
    for text in ("<|turn>user", "<|channel>", "a<turn|>b", "<bos>", "<|tool_call>call:x"):
        typed = tiny.tokenize([PromptPiece("x"), PromptPiece(text, literal=True)])
        assert tiny.detokenize(typed) == "<bos>x" + text
        meant = tiny.tokenize([PromptPiece("x" + text)])
        assert len(meant) < len(typed)
        specials = {
            token for token in meant if tiny.detokenize([token]) in tiny.info.control_tokens
        }
        assert not specials & set(typed[1:]), text


@pytest.mark.parametrize("prompt", ["hello", "<bos>hello", "<bos><bos>hello"])
def test_exactly_one_bos(tiny: LlamaCppModel, prompt: str) -> None:
    assert tiny.tokenize([PromptPiece(prompt)]).count(2) == 1


def test_text_in_any_script_round_trips(tiny: LlamaCppModel) -> None:
    text = "naïve 日本語 😀 ‏عربي\n\n\ttabs  spaces"
    assert tiny.detokenize(tiny.tokenize([PromptPiece(text)])) == "<bos>" + text


def test_cancel_frees_the_slot_at_once(tiny: LlamaCppModel) -> None:
    endless = SamplingOptions(temperature=0, logit_bias=tuple((t, -99.0) for t in (1, 9, 16)))
    running = tiny.generate(GenerationRequest([PromptPiece("Once")], endless))
    next(running)
    running.close()
    assert list(running) == []
    assert answer(tiny, QUESTION, sampling=GREEDY).text == PARIS
