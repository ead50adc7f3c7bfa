"""What the engine does in this process it does in a worker: the same answers, the same errors."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue.errors import LoadError, UsageError
from geniex_runtimes.contract import Done, GenerationRequest, LoadedModel, PromptPiece, TextEvent
from geniex_runtimes.errors import ContextLengthError, GenerationError, SpeculativeError
from geniex_runtimes.llama_cpp.isolated.model import IsolatedModel
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.options import LoadOptions, SamplingOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved, turn
from tests.geniex_runtimes.llama_cpp.isolated.workers import ENDLESS, gone, isolated, pid_of, until

QUESTION = turn("What is the capital of France?")
PARIS = "The capital of France is Paris."
STORY = turn("Tell me a short story about a fox.")
GRAMMAR = 'root ::= "Paris" | "Rome" [0-9]+'
MTP = SpeculativeOptions(("draft-mtp",), 3, adapt=False, require=True)


def seeded(seed: int) -> SamplingOptions:
    return SamplingOptions(temperature=0.9, seed=seed)


def pieces(*texts: tuple[str, bool]) -> list[PromptPiece]:
    return [PromptPiece(text, literal) for text, literal in texts]


@pytest.mark.parametrize(
    ("prompt", "fields"),
    [
        pytest.param(QUESTION, {}, id="greedy"),
        pytest.param(STORY, {"max_tokens": 60}, id="greedy-story"),
        pytest.param(STORY, {"sampling": seeded(7), "max_tokens": 40}, id="seeded"),
        pytest.param(QUESTION, {"stop": ("ital of",)}, id="stop"),
        pytest.param(QUESTION, {"max_tokens": 0}, id="no-token"),
        pytest.param(QUESTION, {"logprobs": 3}, id="logprobs"),
        pytest.param([2, 300, 301, 302], {"max_tokens": 9}, id="token-ids"),
        pytest.param("", {"max_tokens": 1}, id="empty"),
        pytest.param(turn("日本語 😀"), {"max_tokens": 30, "logprobs": 0}, id="any-script"),
        pytest.param(
            QUESTION,
            {"sampling": SamplingOptions(temperature=0, grammar=GRAMMAR)},
            id="grammar",
        ),
        pytest.param(
            STORY,
            {"sampling": SamplingOptions(temperature=0, logit_bias=((16, 3.5),)), "max_tokens": 9},
            id="bias",
        ),
    ],
)
def test_answers_are_those_of_this_process(
    tiny_slots: LlamaCppModel, tiny_isolated: IsolatedModel, prompt: Any, fields: dict[str, object]
) -> None:
    asked = {"reuse_prefix": False} | fields
    here, there = (answer(model, prompt, **asked) for model in (tiny_slots, tiny_isolated))
    assert (there.text, there.logprobs) == (here.text, here.logprobs)
    assert there.done.finish_reason == here.done.finish_reason
    for name in ("prompt_tokens", "generated_tokens", "cached_tokens", "stop_reason"):
        assert getattr(there.done.profile, name) == getattr(here.done.profile, name), name
    assert there.done.profile.ttft > 0


def test_what_it_says_of_itself(tiny_slots: LlamaCppModel, tiny_isolated: IsolatedModel) -> None:
    model: LoadedModel = tiny_isolated
    assert model.info == tiny_slots.info
    assert len(model.info.control_tokens) > 5 and model.info.chat_template


def test_an_answer_streams_and_its_beginning_is_reused(tiny_isolated: IsolatedModel) -> None:
    assert len(answer(tiny_isolated, QUESTION).pieces) > 3
    again = answer(tiny_isolated, QUESTION)
    assert again.text == PARIS and again.done.profile.cached_tokens > 10


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param(pieces(("<|turn>user", False)), id="special"),
        pytest.param(pieces(("x", False), ("<|turn>user", True)), id="literal"),
        pytest.param(pieces(("naïve 日本語 😀\n\ttabs \ud800 ", False)), id="any-text"),
        pytest.param([], id="nothing"),
        pytest.param(pieces(("the owl " * 20_000, True)), id="long"),
    ],
)
def test_the_tokenizer(
    tiny_slots: LlamaCppModel, tiny_isolated: IsolatedModel, prompt: Sequence[PromptPiece]
) -> None:
    tokens = tiny_isolated.tokenize(prompt)
    assert tokens == tiny_slots.tokenize(prompt)
    assert tiny_isolated.detokenize(tokens) == tiny_slots.detokenize(tokens)
    few = tokens[:5]
    assert [*map(tiny_isolated.token_bytes, few)] == [*map(tiny_slots.token_bytes, few)]


@pytest.mark.parametrize(
    ("request_", "error", "says"),
    [
        pytest.param(GenerationRequest([99999]), UsageError, "99999", id="unknown-token"),
        pytest.param(GenerationRequest([5] * 1025), ContextLengthError, "1025", id="too-long"),
        pytest.param(
            GenerationRequest([PromptPiece("the owl " * 100_000)]),
            ContextLengthError,
            "at least",
            id="megabytes",
        ),
        pytest.param(
            GenerationRequest([5], SamplingOptions(grammar='root ::= "a" (')),
            UsageError,
            "grammar",
            id="no-grammar",
        ),
    ],
)
def test_what_is_refused_at_once(
    tiny_slots: LlamaCppModel,
    tiny_isolated: IsolatedModel,
    request_: GenerationRequest,
    error: type[Exception],
    says: str,
) -> None:
    told = []
    for model in (tiny_slots, tiny_isolated):
        with pytest.raises(error, match=says) as caught:
            model.generate(request_)
        told.append((type(caught.value), str(caught.value), vars(caught.value)))
    assert told[0] == told[1]
    with pytest.raises(UsageError, match="99999"):
        tiny_isolated.detokenize([99999])
    with pytest.raises(UsageError, match="not for embeddings"):
        tiny_isolated.embed(["x"])


def test_several_at_once_are_each_as_alone(tiny_isolated: IsolatedModel) -> None:
    """More than there are slots: the last ones wait."""
    prompts = [turn(f"Tell me about the number {number}.") for number in range(8)]

    def ask(prompt: str) -> str:
        return answer(tiny_isolated, prompt, max_tokens=25, reuse_prefix=False).text

    alone = [ask(prompt) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, prompts)) == alone


def test_cancels_in_the_answer_in_the_prompt_and_in_the_queue(tiny_isolated: IsolatedModel) -> None:
    running = [tiny_isolated.generate(ENDLESS) for _ in range(3)]
    assert all(isinstance(next(one), TextEvent) for one in running)
    waiting = tiny_isolated.generate(ENDLESS)
    waiting.stop()
    (done,) = waiting
    assert isinstance(done, Done) and done.finish_reason == "cancelled"
    assert done.profile.generated_tokens == 0
    for one in running:
        one.stop()
        *_, done = one
        assert isinstance(done, Done) and done.finish_reason == "cancelled"
        assert done.profile.generated_tokens > 0
    long = tiny_isolated.generate(GenerationRequest([300] * 1000, reuse_prefix=False))
    long.close()
    assert list(long) == []
    assert answer(tiny_isolated, QUESTION).text == PARIS


@pytest.fixture(scope="module")
def pair(tiny_chat: Path, tiny_chat_draft: Path) -> Iterator[tuple[LoadedModel, LoadedModel]]:
    options: dict[str, Any] = {"speculative": MTP, "draft": resolved(tiny_chat_draft)}
    with load(tiny_chat, **options) as here, isolated(tiny_chat, **options) as there:
        yield here, there


def test_speculation_and_its_counts(pair: tuple[LoadedModel, LoadedModel]) -> None:
    here, there = pair
    assert there.info == here.info and there.info.speculation == ("draft-mtp",)
    ours, theirs = (answer(model, STORY, max_tokens=80, reuse_prefix=False) for model in pair)
    assert theirs.text == ours.text
    profile = theirs.done.profile
    assert profile.draft_accepted > 5 and profile.spec_state == "on"
    for name in ("draft_steps", "draft_proposed", "draft_accepted", "accepted_at", "spec_reason"):
        assert getattr(profile, name) == getattr(ours.done.profile, name), name
    plain = answer(there, STORY, max_tokens=80, speculative=SpeculativeOptions())
    assert plain.text == ours.text and plain.done.profile.draft_steps == 0


def test_speculation_that_cannot_be_set_up(toys: Path, tiny_chat: Path) -> None:
    stranger = resolved(toys / "g4-markov-draft.gguf")
    with pytest.raises(SpeculativeError):
        isolated(tiny_chat, speculative=MTP, draft=stranger)
    wanted = SpeculativeOptions(("draft-mtp",))
    with (
        load(tiny_chat, speculative=wanted, draft=stranger) as here,
        isolated(tiny_chat, speculative=wanted, draft=stranger) as there,
    ):
        assert there.info.warnings == here.info.warnings != ()


def test_vectors(toys: Path) -> None:
    bert = toys / "bert-mean.gguf"
    texts = ["the cat sat on the mat", "A dog?", "the dog " * 300]
    options = LoadOptions(threads=1, embedding=True)
    with (
        LlamaCppRuntime().load(resolved(bert), options) as here,
        isolated(bert, embedding=True) as there,
    ):
        assert there.info == here.info
        assert there.embed(texts) == here.embed(texts)
        assert there.embed([]).vectors == ()
        tokens = [there.tokenize([PromptPiece(text)]) for text in texts]
        assert there.embed(tokens) == here.embed(texts)
        with pytest.raises(UsageError, match="empty"):
            there.embed([""])
        with pytest.raises(ContextLengthError):
            there.embed([[5] * 2000])
        with pytest.raises(UsageError, match="gives no text"):
            there.generate(GenerationRequest([5]))


def test_contexts_of_a_model_share_a_worker_and_its_weights(own_chat: Path) -> None:
    first = isolated(own_chat)
    with isolated(own_chat, slots=2, context_length=512) as second:
        pid = pid_of(first)
        assert pid_of(second) == pid
        running = first.generate(ENDLESS)
        next(running)
        first.free_contexts()
        *_, done = running
        assert isinstance(done, Done) and done.finish_reason == "cancelled"
        first.close()
        assert answer(second, QUESTION).text == PARIS and pid_of(second) == pid
    until(lambda: gone(pid), "it lives on")


def test_closing_ends_answers_and_says_so(own_chat: Path) -> None:
    model = isolated(own_chat)
    pid = pid_of(model)
    running, waiting = model.generate(ENDLESS), model.generate(ENDLESS)
    next(running)
    model.close()
    model.close()
    for one in (running, waiting):
        *_, done = one
        assert isinstance(done, Done) and done.finish_reason == "cancelled"
    assert gone(pid) and model.worker_pid is None
    for use in (
        lambda: model.generate(ENDLESS),
        lambda: model.tokenize([PromptPiece("x")]),
        lambda: model.detokenize([5]),
        lambda: model.token_bytes(5),
        lambda: model.embed(["x"]),
    ):
        with pytest.raises(GenerationError, match="closed"):
            use()


def test_a_load_tells_how_far_it_is_and_can_be_given_up(tiny_chat: Path) -> None:
    shares: list[float] = []

    def told(share: float) -> bool:
        shares.append(share)
        return True

    runtime, options = LlamaCppRuntime(), LoadOptions(threads=1, isolate=True)
    runtime.load(resolved(tiny_chat), options, progress=told).close()
    assert shares == sorted(shares) and shares[0] == 0.0
    with pytest.raises(LoadError, match="was given up"):
        runtime.load(resolved(tiny_chat), options, progress=lambda share: False)


def test_a_load_beside_others_can_be_given_up(
    tiny_isolated: IsolatedModel, tiny_chat: Path
) -> None:
    pid = pid_of(tiny_isolated)
    with pytest.raises(LoadError, match="was given up"):
        LlamaCppRuntime().load(
            resolved(tiny_chat), LoadOptions(isolate=True), progress=lambda share: False
        )
    assert answer(tiny_isolated, QUESTION).text == PARIS and pid_of(tiny_isolated) == pid


def test_an_unknown_device_is_named(tiny_chat: Path) -> None:
    with pytest.raises(UsageError, match="HTP7"):
        isolated(tiny_chat, devices=("HTP7",), compute="npu")


def test_nothing_is_tried_out_in_another_child(own_chat: Path, tmp_path: Path) -> None:
    with isolated(own_chat, data_dir=tmp_path / "data") as model:
        assert answer(model, QUESTION).text == PARIS
    assert not (tmp_path / "data" / "trials.json").exists()
