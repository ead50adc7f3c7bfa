"""The scripted runtime keeps the contract, so that the faces can be tested with it."""

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from geniex_catalogue.errors import LoadError, UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    Done,
    Event,
    GenerationRequest,
    LoadedModel,
    PromptPiece,
    Runtime,
    TextEvent,
)
from geniex_runtimes.errors import ContextLengthError, GenerationError, SpeculativeError
from geniex_runtimes.fake import BOS, EOS, FakeModel, FakeRuntime, Script
from geniex_runtimes.options import LoadOptions, SpeculativeOptions

_x: Runtime = FakeRuntime()

MODEL = ResolvedModel("fake", None, "gguf", Path("x"), (Path("x"),), None, 0)
PROMPT = (PromptPiece("Hi"),)


def _load(*scripts: Script, context_length: int = 4096) -> FakeModel:
    return FakeRuntime(*scripts, context_length=context_length).load(MODEL, LoadOptions())


def _read(events: Iterable[Event]) -> tuple[str, Done]:
    """The text, and the one `Done` that must come last."""
    *texts, done = list(events)
    assert all(isinstance(event, TextEvent) for event in texts)
    assert isinstance(done, Done)
    return "".join(event.text for event in texts if isinstance(event, TextEvent)), done


def test_a_fake_model_is_a_loaded_model() -> None:
    model: LoadedModel = _load()
    text, done = _read(model.generate(GenerationRequest(PROMPT)))
    assert text == "Hello, world!"
    assert (done.finish_reason, done.profile.stop_reason) == ("stop", "eos")
    assert (done.profile.prompt_tokens, done.profile.generated_tokens) == (3, 4)


@pytest.mark.parametrize(
    ("pieces", "stop", "max_tokens", "text", "finish", "reason", "tokens"),
    [
        pytest.param(("a", "b"), (), None, "ab", "stop", "eos", 2, id="to-the-end"),
        pytest.param(("a", "b"), (), 1, "a", "length", "length", 1, id="limit"),
        pytest.param(("a", "b"), (), 2, "ab", "length", "length", 2, id="limit-at-the-end"),
        pytest.param(("a", "b"), (), 0, "", "length", "length", 0, id="nothing-allowed"),
        pytest.param(("ab", "cd"), ("bc",), None, "a", "stop", "stop", 2, id="stop-across"),
        pytest.param(("ab", "xd"), ("bc",), None, "abxd", "stop", "eos", 2, id="only-begun"),
        pytest.param(("ab", "END", "x"), ("END",), None, "ab", "stop", "stop", 2, id="stop"),
        pytest.param(("xyEN",), ("END", "y"), None, "x", "stop", "stop", 1, id="first-stop-wins"),
        pytest.param(("a", "EN"), ("END",), None, "aEN", "stop", "eos", 2, id="begun-at-the-end"),
        pytest.param((b"\xc3", b"\xa9"), (), None, "é", "stop", "eos", 2, id="whole-characters"),
        pytest.param((b"a\xc3",), (), None, "a\ufffd", "stop", "eos", 1, id="half-a-character"),
        pytest.param((), (), None, "", "stop", "eos", 0, id="nothing-said"),
    ],
)
def test_endings(
    pieces: tuple[str | bytes, ...],
    stop: tuple[str, ...],
    max_tokens: int | None,
    text: str,
    finish: str,
    reason: str,
    tokens: int,
) -> None:
    model = _load(Script(pieces))
    said, done = _read(model.generate(GenerationRequest(PROMPT, stop=stop, max_tokens=max_tokens)))
    assert (said, done.finish_reason, done.profile.stop_reason) == (text, finish, reason)
    assert done.profile.generated_tokens == tokens


def test_a_full_context_ends_the_answer() -> None:
    _, done = _read(_load(context_length=5).generate(GenerationRequest(PROMPT)))
    assert (done.finish_reason, done.profile.stop_reason) == ("length", "context")
    with pytest.raises(ContextLengthError) as caught:
        _load(context_length=2).generate(GenerationRequest(PROMPT))
    assert (caught.value.prompt_tokens, caught.value.context_length) == (3, 2)


@pytest.mark.parametrize("prompt", [(), (300,), (-1,)], ids=["empty", "too-high", "negative"])
def test_bad_prompts(prompt: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        _load().generate(GenerationRequest(prompt))


def test_scripts_follow_each_other_and_the_last_repeats() -> None:
    model = _load(Script(("one",)), Script(("two",)))
    said = [_read(model.generate(GenerationRequest(PROMPT)))[0] for _ in range(3)]
    assert said == ["one", "two", "two"]
    assert len(model.requests) == 3


def test_errors_come_where_the_script_says() -> None:
    error = GenerationError("boom")
    with pytest.raises(LoadError, match="no"):
        FakeRuntime(load_error=LoadError("no")).load(MODEL, LoadOptions())
    with pytest.raises(GenerationError, match="boom"):
        next(_load(Script(prefill_error=error)).generate(GenerationRequest(PROMPT)))
    generation = _load(Script(("a", "b"), error=error, error_after=1)).generate(
        GenerationRequest(PROMPT)
    )
    assert next(generation) == TextEvent("a")
    with pytest.raises(GenerationError, match="boom"):
        next(generation)
    after_all = _load(Script(("a",), error=error, error_after=1))
    with pytest.raises(GenerationError, match="boom"):
        list(after_all.generate(GenerationRequest(PROMPT)))


def test_loading_reports_progress_and_can_be_given_up() -> None:
    seen: list[float] = []
    runtime = FakeRuntime()

    def watch(part: float) -> bool:
        seen.append(part)
        return True

    runtime.load(MODEL, LoadOptions(slots=2), progress=watch)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
    assert runtime.loads == [LoadOptions(slots=2)]
    with pytest.raises(LoadError, match="given up"):
        runtime.load(MODEL, LoadOptions(), progress=lambda part: False)


def test_closing_a_generation_ends_it_at_once() -> None:
    model = _load(Script(("a", "b"), delay=30))
    generation = model.generate(GenerationRequest(PROMPT))
    threading.Timer(0.05, generation.close).start()
    started = time.monotonic()
    _, done = _read(generation)
    assert time.monotonic() - started < 5
    assert done.finish_reason == "cancelled"
    assert list(generation) == []


def test_closing_the_model_cancels_what_runs() -> None:
    model = _load(Script(("a",) * 9, delay=0.001))
    generation = model.generate(GenerationRequest(PROMPT))
    next(generation)
    model.close()
    model.close()
    _, done = _read(generation)
    assert (done.finish_reason, model.closed) == ("cancelled", True)
    with pytest.raises(GenerationError, match="closed"):
        model.generate(GenerationRequest(PROMPT))


def test_a_known_prefix_is_not_counted_again() -> None:
    model = _load()
    longer = (PromptPiece("Hi there"),)
    first = _read(model.generate(GenerationRequest(PROMPT)))[1].profile
    second = _read(model.generate(GenerationRequest(longer)))[1].profile
    again = _read(model.generate(GenerationRequest(longer)))[1].profile
    fresh = _read(model.generate(GenerationRequest(longer, reuse_prefix=False)))[1].profile
    assert [p.cached_tokens for p in (first, second, again, fresh)] == [0, 3, 8, 0]


def test_logprobs_have_the_right_shape() -> None:
    events = list(_load(Script(("a", "b"))).generate(GenerationRequest(PROMPT, logprobs=2)))
    tokens = [
        token for event in events[:-1] if isinstance(event, TextEvent) for token in event.logprobs
    ]
    assert [token.data for token in tokens] == [b"a", b"b"]
    assert all(len(token.top) == 2 and token.logprob < 0 for token in tokens)


def test_tokens_there_and_back() -> None:
    model = _load()
    assert model.tokenize([PromptPiece("é</s>"), PromptPiece("</s>", literal=True)]) == [
        BOS,
        *"é".encode(),
        EOS,
        *b"</s>",
    ]
    assert model.detokenize([BOS, 104, 105, EOS]) == "<s>hi</s>"
    with pytest.raises(UsageError):
        model.detokenize([999])


def test_a_script_may_speculate_where_it_was_set_up() -> None:
    script = Script(drafts=((3, 3), (3, 1), (2, 0)), spec_state="reduced", spec_reason="slow")
    options = LoadOptions(speculative=SpeculativeOptions(("draft-mtp",)))
    model = FakeRuntime(script).load(MODEL, options)
    assert model.info.speculation == ("draft-mtp",)
    profile = _read(model.generate(GenerationRequest(PROMPT)))[1].profile
    assert (profile.draft_steps, profile.draft_proposed, profile.draft_accepted) == (3, 8, 4)
    assert profile.accepted_at == (2, 1, 1)
    assert (profile.spec_state, profile.spec_reason) == ("reduced", "slow")
    for generation in (
        model.generate(GenerationRequest(PROMPT, speculative=SpeculativeOptions())),
        _load(script).generate(GenerationRequest(PROMPT)),
    ):
        plain = _read(generation)[1].profile
        assert (plain.draft_steps, plain.draft_proposed, plain.spec_state) == (0, 0, None)


def test_speculation_may_fail() -> None:
    runtime = FakeRuntime(spec_failure="no")
    wish = SpeculativeOptions(("draft-mtp",))
    info = runtime.load(MODEL, LoadOptions(speculative=wish)).info
    assert info.speculation == () and info.warnings[0].endswith("plain decoding: no")
    with pytest.raises(SpeculativeError, match="no"):
        runtime.load(MODEL, LoadOptions(speculative=replace(wish, require=True)))
    assert runtime.load(MODEL, LoadOptions()).info.warnings == ()


def test_the_bytes_of_a_token() -> None:
    model = _load()
    assert [model.token_bytes(token) for token in (104, 0xC3, EOS)] == [b"h", b"\xc3", b"</s>"]
    with pytest.raises(UsageError):
        model.token_bytes(999)


def test_embeddings_where_they_were_asked_for() -> None:
    model = FakeRuntime(context_length=6).load(MODEL, LoadOptions(embedding=True))
    assert model.info.embedding
    one, other, same = model.embed(["abc", "xyz", "abc"]).vectors
    assert one == same != other
    assert sum(value * value for value in one) == pytest.approx(1)
    assert model.embed([[BOS, *b"abc"]]).vectors == (one,)
    assert model.embed(["abc", "x"]).tokens == 6
    for bad, error in (([[]], UsageError), ([[999]], UsageError), (["x" * 9], ContextLengthError)):
        with pytest.raises(error):
            model.embed(bad)
    with pytest.raises(UsageError, match="embeddings alone"):
        model.generate(GenerationRequest(PROMPT))
    with pytest.raises(UsageError, match="answer in text"):
        _load().embed(["abc"])
    model.close()
    with pytest.raises(GenerationError, match="closed"):
        model.embed(["abc"])


def test_contexts_may_be_freed_before_the_rest() -> None:
    model = _load(Script(("a",) * 9, delay=0.001))
    generation = model.generate(GenerationRequest(PROMPT))
    model.free_contexts()
    assert _read(generation)[1].finish_reason == "cancelled"
    assert (model.contexts_freed, model.closed) == (True, False)
    with pytest.raises(GenerationError, match="closed"):
        model.generate(GenerationRequest(PROMPT))
