"""What both faces share: from a name to answers, with a scripted runtime."""

from collections.abc import Callable
from pathlib import Path

import pytest

from geniex.chat.messages import Message
from geniex.chat.reasoning import Part
from geniex.config import Settings
from geniex.session import (
    Answer,
    AnswerOptions,
    OpenModel,
    find_local_model,
    load_model,
    open_model,
)
from geniex_catalogue.errors import (
    ContextLengthError,
    LoadError,
    ModelNotFoundError,
    PrecisionNotFoundError,
    TemplateError,
)
from geniex_runtimes.contract import SamplingOptions
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script

Install = Callable[[FakeRuntime], FakeRuntime]
HI = [Message("user", "hi")]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def opened(install: Install, settings: Settings, *scripts: Script, **how: object) -> OpenModel:
    install(FakeRuntime(*scripts, name="llama_cpp", **how))  # type: ignore[arg-type]
    return open_model("geniex/tiny-chat", settings)


def native(model: OpenModel) -> FakeModel:
    assert isinstance(model.loaded, FakeModel)
    return model.loaded


def test_parts_then_one_answer(scripted: Install, settings: Settings) -> None:
    script = Script(("<think>", "hm", "</think>", "Yes", "."))
    with opened(scripted, settings, script) as model:
        *parts, answer = model.answer(HI, AnswerOptions())
    assert parts == [Part("reasoning", "hm"), Part("content", "Yes"), Part("content", ".")]
    assert isinstance(answer, Answer)
    assert (answer.content, answer.reasoning, answer.finish_reason) == ("Yes.", "hm", "stop")
    assert answer.profile.generated_tokens == 5
    assert native(model).closed


def test_tokens_are_taken_as_they_are(scripted: Install, settings: Settings) -> None:
    with opened(scripted, settings, Script(("<think>", "hm"))) as model:
        *_, answer = model.answer_tokens([104, 105], AnswerOptions(max_tokens=9))
        assert isinstance(answer, Answer) and answer.content == "<think>hm"
        assert native(model).requests[-1].prompt == [104, 105]


def test_options_reach_the_runtime(scripted: Install, settings: Settings) -> None:
    options = AnswerOptions(SamplingOptions(seed=3), max_tokens=7, stop=("x",), reuse_prefix=False)
    with opened(scripted, settings) as model:
        list(model.answer(HI, options))
        request = native(model).requests[-1]
    assert request.sampling.seed == 3 and request.max_tokens == 7
    assert request.stop[0] == "x" and not request.reuse_prefix


@pytest.mark.parametrize("started", [True, False])
def test_closing_cancels_even_what_was_not_begun(
    scripted: Install, settings: Settings, started: bool
) -> None:
    with opened(scripted, settings, Script(("a",) * 100, delay=0.01)) as model:
        events = model.answer(HI, AnswerOptions())
        if started:
            next(iter(events))
        events.close()
        rest = list(events)
    assert not any(isinstance(event, Answer) for event in rest)


def test_errors_come_before_anything_runs(scripted: Install, settings: Settings) -> None:
    with opened(scripted, settings, context_length=4096) as model:
        with pytest.raises(ContextLengthError):
            model.answer([Message("user", "x" * 5000)], AnswerOptions())
        with pytest.raises(TemplateError):
            model.answer([], AnswerOptions())
        assert native(model).requests == []


def test_a_load_can_be_given_up(scripted: Install, settings: Settings) -> None:
    scripted(FakeRuntime(name="llama_cpp"))
    resolved = find_local_model("geniex/tiny-chat", settings)
    shares: list[float] = []

    def progress(share: float) -> bool:
        shares.append(share)
        return share < 0.5

    with pytest.raises(LoadError, match="given up"):
        load_model(resolved, settings, progress=progress)
    assert shares == [0.0, 0.25, 0.5]


def test_the_plan_makes_the_load(scripted: Install, tmp_path: Path) -> None:
    runtime = FakeRuntime(name="llama_cpp")
    scripted(runtime)
    settings = Settings(data_dir=tmp_path, nctx=512, threads=2, compute="cpu")
    model = open_model("geniex/tiny-chat", settings, slots=3)
    options = runtime.loads[-1]
    assert (options.context_length, options.threads, options.slots) == (512, 2, 3)
    assert model.plan.context_length == 512 and options.compute == model.plan.compute == "cpu"


def test_warnings_are_told_once(scripted: Install, tmp_path: Path) -> None:
    scripted(FakeRuntime(name="llama_cpp"))
    model = open_model("geniex/tiny-chat", Settings(data_dir=tmp_path, nctx=100_000))
    assert len(model.warnings) == len(set(model.warnings)) == 1


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("org/none", ModelNotFoundError, "geniex pull org/none"),
        ("geniex/tiny-chat:Q2_K", PrecisionNotFoundError, "Q8_0"),
        ("./nothing.gguf", ModelNotFoundError, "nothing.gguf"),
    ],
)
def test_what_is_not_here(settings: Settings, name: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as caught:
        find_local_model(name, settings)
    assert told in f"{caught.value} {getattr(caught.value, 'hint', '')}"
