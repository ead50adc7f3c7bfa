"""What both faces share: from a name to answers, with a scripted runtime."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from geniex.chat.messages import Message
from geniex.chat.reasoning import Part
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolCallPart, ToolChoice
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
    LoadError,
    ModelNotFoundError,
    PrecisionNotFoundError,
    TemplateError,
    UsageError,
)
from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.errors import ContextLengthError
from geniex_runtimes.fake import CHAT_TEMPLATE, FakeModel, FakeRuntime, Script
from geniex_runtimes.options import SamplingOptions

Install = Callable[[FakeRuntime], FakeRuntime]
HI = [Message("user", "hi")]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


# a template that speaks of reasoning
THINKS = "{# <think> #}" + CHAT_TEMPLATE


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


@pytest.mark.parametrize("logprobs", [None, 1])
@pytest.mark.parametrize("max_tokens", [None, 6])
def test_a_stop_is_looked_for_in_the_content_alone(
    scripted: Install, settings: Settings, max_tokens: int | None, logprobs: int | None
) -> None:
    script = Script(("<think>", "hm, no.", "</think>", "\n\n", "Yes", ", no.", " More"))
    options = AnswerOptions(stop=("no.", ">"), max_tokens=max_tokens, logprobs=logprobs)
    with opened(scripted, settings, script, chat_template=THINKS) as model:
        answer = whole(model, options)
    assert (answer.reasoning, answer.content) == ("hm, no.", "Yes, ")
    assert (answer.finish_reason, answer.profile.stop_reason) == ("stop", "stop")
    assert answer.profile.generated_tokens == 6
    assert [entry.data for entry in answer.logprobs] == ([b"Yes"] if logprobs else [])


def test_a_chat_without_a_template_ends_at_its_own_stop_too(
    scripted: Install, settings: Settings
) -> None:
    script = Script(("Yes", "\nUser", ": no"))
    with opened(scripted, settings, script, chat_template=None) as model:
        answer = whole(model, AnswerOptions(stop=("no",)))
    assert (answer.content, answer.profile.stop_reason) == ("Yes", "stop")


def test_tokens_are_taken_as_they_are(scripted: Install, settings: Settings) -> None:
    with opened(scripted, settings, Script(("<think>", "hm"))) as model:
        *_, answer = model.answer_tokens([104, 105], AnswerOptions(max_tokens=9))
        assert isinstance(answer, Answer) and answer.content == "<think>hm"
        assert native(model).requests[-1].prompt == [104, 105]


def test_options_reach_the_runtime(scripted: Install, settings: Settings) -> None:
    options = AnswerOptions(SamplingOptions(seed=3), max_tokens=7, stop=("x",), reuse_prefix=False)
    with opened(scripted, settings) as model:
        list(model.complete("hi", options))
        request = native(model).requests[-1]
        assert request.sampling.seed == 3 and request.max_tokens == 7
        assert request.stop == ("x",) and not request.reuse_prefix
        list(model.answer(HI, options))
    last = native(model).requests[-1]
    assert last == replace(request, prompt=last.prompt)
    with opened(scripted, settings, chat_template=THINKS) as model:
        list(model.answer(HI, options))
    # what of an answer is content, the runtime cannot tell where there may be more
    assert native(model).requests[-1] == replace(last, stop=(), counted=True)


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


WEATHER = Tool("weather", parameters={"type": "object", "properties": {"city": {}}})
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'


def whole(model: OpenModel, options: AnswerOptions, messages: Sequence[Message] = HI) -> Answer:
    *_, answer = model.answer(messages, options)
    assert isinstance(answer, Answer)
    return answer


def prompt_of(model: OpenModel) -> str:
    """The text of the last prompt."""
    pieces = native(model).requests[-1].prompt
    return "".join(piece.text for piece in pieces if isinstance(piece, PromptPiece))


def test_calls_come_out_of_the_content(scripted: Install, settings: Settings) -> None:
    script = Script(("I look", ".\n", *CALL[:30], CALL[30:], CALL))
    with opened(scripted, settings, script) as model:
        parts = list(model.answer(HI, AnswerOptions(tools=(WEATHER,))))
    answer = parts[-1]
    assert isinstance(answer, Answer)
    assert (answer.content, answer.finish_reason) == ("I look.", "tool_calls")
    called = [(call.name, call.arguments) for call in answer.tool_calls]
    assert called == [("weather", '{"city": "Rome"}')] * 2
    pieces = [part for part in parts if isinstance(part, ToolCallPart)]
    ids = [(part.index, part.id) for part in pieces if part.id]
    assert ids == [(at, call.id) for at, call in enumerate(answer.tool_calls)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(AnswerOptions(), id="no tools"),
        pytest.param(AnswerOptions(tools=(WEATHER,), tool_choice=ToolChoice("none")), id="none"),
        pytest.param(AnswerOptions(tools=(Tool("other"),)), id="another tool"),
    ],
)
def test_what_was_not_to_be_called_is_content(
    scripted: Install, settings: Settings, options: AnswerOptions
) -> None:
    with opened(scripted, settings, Script((CALL,))) as model:
        answer = whole(model, options)
    assert (answer.content, answer.tool_calls, answer.finish_reason) == (CALL, (), "stop")


def test_without_parallel_calls_the_first_ends_the_answer(
    scripted: Install, settings: Settings
) -> None:
    script = Script((CALL, CALL, *"and on" * 1000), delay=0.001)
    with opened(scripted, settings, script) as model:
        answer = whole(model, AnswerOptions(tools=(WEATHER,), parallel_tool_calls=False))
    assert len(answer.tool_calls) == 1 and answer.finish_reason == "tool_calls"
    assert answer.profile.generated_tokens < 1000


def test_a_call_that_is_cut_ends_by_length(scripted: Install, settings: Settings) -> None:
    with opened(scripted, settings, Script(tuple(CALL))) as model:
        answer = whole(model, AnswerOptions(tools=(WEATHER,), max_tokens=len(CALL) - 20))
    assert answer.finish_reason == "length" and answer.tool_calls[0].text().startswith('{"ci')


@pytest.mark.parametrize(("mode", "told"), [("auto", True), ("none", False)])
def test_tools_are_in_the_prompt_unless_none_may_be_called(
    scripted: Install, settings: Settings, mode: Literal["auto", "none"], told: bool
) -> None:
    options = AnswerOptions(tools=(WEATHER,), tool_choice=ToolChoice(mode))
    with opened(scripted, settings) as model:
        model.answer(HI, options).close()
        assert ('"name": "weather"' in prompt_of(model)) == told
        tokens = model.loaded.tokenize([PromptPiece(prompt_of(model))])
        assert model.prompt_tokens(HI, options) == tokens


@pytest.mark.parametrize(
    "options",
    [
        AnswerOptions(tools=(WEATHER, WEATHER)),
        AnswerOptions(tools=(WEATHER,), tool_choice=ToolChoice("required", ("other",))),
        AnswerOptions(tool_choice=ToolChoice("required")),
        AnswerOptions(response_format=ResponseFormat("json_schema", {"not": {}})),
        AnswerOptions(
            SamplingOptions(grammar="root ::= [a]"), response_format=ResponseFormat("json_object")
        ),
        AnswerOptions(template_variables={"messages": []}),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    scripted: Install, settings: Settings, options: AnswerOptions
) -> None:
    with opened(scripted, settings) as model:
        with pytest.raises(UsageError):
            model.answer(HI, options)
        assert native(model).requests == []


def test_a_form_or_a_required_call_is_a_grammar(scripted: Install, settings: Settings) -> None:
    form = ResponseFormat("json_schema", {"const": 3})
    with opened(scripted, settings) as model:
        model.answer(HI, AnswerOptions(response_format=form)).close()
        assert '"3"' in (native(model).requests[-1].sampling.grammar or "")
        required = AnswerOptions(tools=(WEATHER,), tool_choice=ToolChoice("required"))
        model.answer(HI, required).close()
        assert "weather" in (native(model).requests[-1].sampling.grammar or "")
        model.answer(HI, AnswerOptions(tools=(WEATHER,))).close()
        assert native(model).requests[-1].sampling.grammar is None


def test_what_strict_tools_can_count_on_is_told(scripted: Install, settings: Settings) -> None:
    strict = Tool("weather", parameters={"type": "object"}, strict=True)
    with opened(scripted, settings) as model:
        free = whole(model, AnswerOptions(tools=(strict,)))
        held = whole(model, AnswerOptions(tools=(strict,), tool_choice=ToolChoice("required")))
    assert any("strict tool" in note for note in free.notes)
    assert not any("strict tool" in note for note in held.notes)


@pytest.mark.parametrize(
    ("mark", "held"), [("<tool_call>", True), ("<tool_call><function=", False), ("", False)]
)
def test_strict_tools_are_held_to_where_calls_have_a_mark(
    scripted: Install, settings: Settings, mark: str, held: bool
) -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}{# " + mark + " #}"
    strict = Tool("weather", parameters={"type": "object", "properties": {}}, strict=True)
    with opened(scripted, settings, Script((CALL,)), chat_template=template) as model:
        answer = whole(model, AnswerOptions(tools=(strict, Tool("now"))))
        grammar = native(model).requests[-1].sampling.grammar
    assert (grammar is not None) == held
    assert any("strict tool" in note for note in answer.notes) != held
    assert len(answer.tool_calls) == 1


SWITCH = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)


@pytest.mark.parametrize(
    ("think", "form", "off"),
    [(None, False, False), (None, True, True), (True, True, False), (False, False, True)],
)
def test_what_is_held_to_a_form_is_not_thought_about(
    scripted: Install, settings: Settings, think: bool | None, form: bool, off: bool
) -> None:
    json_object = ResponseFormat("json_object") if form else None
    with opened(scripted, settings, chat_template=SWITCH) as model:
        model.answer(HI, AnswerOptions(think=think, response_format=json_object)).close()
        assert prompt_of(model).endswith("</think>") == off
        grammar = native(model).requests[-1].sampling.grammar or ""
    # a model that is asked to think may do so before the form
    assert ("until" in grammar) == (form and not off)


def test_reasoning_may_stay_where_it_was_written(scripted: Install, settings: Settings) -> None:
    with opened(scripted, settings, Script(("<think>\n", "hm", "</think>", "Yes"))) as model:
        apart = whole(model, AnswerOptions())
        inline = whole(model, AnswerOptions(separate_reasoning=False))
    assert (apart.content, apart.reasoning, apart.reasoning_tokens) == ("Yes", "hm", 2)
    assert (inline.content, inline.reasoning) == ("<think>\nhm</think>Yes", "")
    assert inline.reasoning_tokens == 2


def test_log_probabilities_go_with_their_text(scripted: Install, settings: Settings) -> None:
    with opened(scripted, settings, Script(("<think>", "hm", "</think>", "Y", "es"))) as model:
        parts = list(model.answer(HI, AnswerOptions(logprobs=2)))
        assert native(model).requests[-1].logprobs == 2
    answer = parts[-1]
    assert isinstance(answer, Answer)
    assert [entry.data for entry in answer.logprobs] == [b"Y", b"es"]
    assert all(len(entry.top) == 2 for entry in answer.logprobs)
    thought = parts[0]
    assert isinstance(thought, Part) and [entry.data for entry in thought.logprobs] == [b"hm"]


def test_media_is_left_out_and_told(scripted: Install, settings: Settings) -> None:
    image: dict[str, object] = {"type": "image_url", "image_url": {"url": "x"}}
    content: list[dict[str, object]] = [image, {"type": "text", "text": "what?"}]
    with opened(scripted, settings) as model:
        answer = whole(model, AnswerOptions(), [Message("user", content)])
    assert answer.notes == ("this model does not support images; ignoring image input",)


@pytest.mark.parametrize(
    ("prompt", "literal", "tokens"),
    [
        pytest.param("a</s>", False, [256, 97, 257], id="text"),
        pytest.param("a</s>", True, [256, *b"a</s>"], id="literal text"),
        pytest.param([97, 98], False, [97, 98], id="tokens"),
    ],
)
def test_a_text_is_gone_on_from_as_it_is(
    scripted: Install,
    settings: Settings,
    prompt: str | list[int],
    literal: bool,
    tokens: list[int],
) -> None:
    with opened(scripted, settings, Script(("<think>", CALL))) as model:
        *_, answer = model.complete(prompt, AnswerOptions(tools=(WEATHER,)), literal=literal)
        asked = native(model).requests[-1].prompt
        pieces = [piece for piece in asked if isinstance(piece, PromptPiece)]
        assert (model.loaded.tokenize(pieces) if pieces else asked) == tokens
    assert isinstance(answer, Answer) and answer.content == f"<think>{CALL}"


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
