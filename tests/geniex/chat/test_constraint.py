"""What answers are held to: calls in every family's format, JSON, and thinking before them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from geniex.chat.constraint import Constraint, Thinking, constraint
from geniex.chat.reasoning import FORMATS, HARMONY, THINK, Part, ReasoningSplitter
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tool_calls.bare import Bare
from geniex.chat.tool_calls.families import FAMILIES, family_of
from geniex.chat.tool_calls.gemma import Gemma
from geniex.chat.tool_calls.gpt_oss import GptOss
from geniex.chat.tool_calls.mistral import Mistral
from geniex.chat.tool_calls.reader import CallReader, Family
from geniex.chat.tool_calls.tagged import Tagged
from geniex.chat.tools import Tool, ToolCallPart
from geniex.config import Settings
from geniex.grammar import Marks
from geniex.session import open_model
from geniex_catalogue.errors import SchemaError
from geniex_runtimes.contract import GenerationRequest, PromptPiece, TextEvent
from geniex_runtimes.options import SamplingOptions
from tests.geniex.judge import Judge

WEATHER = Tool(
    "weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 8},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
            "unit": {"enum": ["C", "F"]},
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)
NOW = Tool("now")
TOOLS = (WEATHER, NOW)
FAMILY_NAMES = {
    "hermes": Tagged(),
    "json": Bare(),
    "phi": Bare(mark="<|tool_call|>"),
    "llama": Bare(arguments="parameters"),
    "mistral": Mistral(),
    "mistral new": Mistral(one_by_one=True),
    "gemma": Gemma(),
    "gpt-oss": GptOss(),
}
Draw = Callable[[Constraint, int], str]


@pytest.fixture(scope="module")
def draw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Draw]:
    """An answer of the tiny model at random, held to a constraint."""
    with open_model("geniex/tiny-chat", Settings(tmp_path_factory.mktemp("data"))) as opened:
        marks = Marks(opened.loaded)

        def answer(held: Constraint, seed: int) -> str:
            sampling = marks.held_to(
                held.grammar, SamplingOptions(temperature=1.0, seed=seed), held.kept
            )
            request = GenerationRequest([PromptPiece("A")], sampling, max_tokens=400)
            events = opened.loaded.generate(request)
            return "".join(event.text for event in events if isinstance(event, TextEvent))

        yield answer


def calls_in(text: str) -> list[tuple[str, Any]]:
    """The calls in a text that has nothing else."""
    reader = CallReader(TOOLS, FAMILIES)
    parts = [*reader.feed(Part("content", text)), *reader.finish()]
    assert all(isinstance(part, ToolCallPart) for part in parts), text
    calls: list[list[str]] = []
    for part in parts:
        assert isinstance(part, ToolCallPart)
        if part.name is not None:
            calls.append([part.name, ""])
        calls[-1][1] += part.arguments
    return [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("family", FAMILY_NAMES.values(), ids=FAMILY_NAMES)
def test_required_calls_are_read_and_fit_their_schema(
    draw: Draw, family: Family, several: bool
) -> None:
    held = constraint(None, family, TOOLS, several=several, thinking=Thinking())
    for seed in range(3):
        calls = calls_in(draw(held, seed))
        assert calls and (several or len(calls) == 1)
        for name, arguments in calls:
            schema = WEATHER.parameters if name == "weather" else {"maxProperties": 0}
            jsonschema.validate(arguments, schema)


@pytest.mark.parametrize("family", FAMILY_NAMES.values(), ids=FAMILY_NAMES)
def test_one_tool_alone(draw: Draw, family: Family) -> None:
    held = constraint(None, family, (NOW,), several=False, thinking=Thinking())
    assert calls_in(draw(held, 1)) == [("now", {})]


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("true", True),
        ('{"name": "now", "arguments": {}}', True),
        ('{"name": "new", "arguments": {}}', False),
        ("3", False),
    ],
)
def test_content_of_a_form_or_a_call(judge: Judge, text: str, passes: bool) -> None:
    form = ResponseFormat("json_schema", {"type": "boolean"})
    held = constraint(form, Bare(), TOOLS, several=True, thinking=Thinking())
    assert judge.accepts(held.grammar, text) == passes


PARIS = '{"city":"Paris","unit":"C"}'
HERMES_CALL = f'<tool_call>\n{{"name": "weather", "arguments": {PARIS}}}\n</tool_call>'
HARMONY_CALL = f"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{PARIS}"


@pytest.mark.parametrize(
    ("family", "good", "bad"),
    [
        pytest.param(
            Tagged(),
            ["", "Hi <b>", "<tool_cal", HERMES_CALL, f"Hi\n{HERMES_CALL}\n{HERMES_CALL}"],
            ["<tool_call>", HERMES_CALL.replace("Paris", "P" * 99), f"{HERMES_CALL} and words"],
            id="hermes",
        ),
        pytest.param(
            Gemma(),
            [
                "Hi <|tool",
                '<|tool_call>call:weather{city:<|"|>Paris<|"|>,unit:<|"|>C<|"|>}<tool_call|>',
            ],
            ["<|tool_call>call:weather{}<tool_call|>", "<|tool_call>call:other{}<tool_call|>"],
            id="gemma",
        ),
        pytest.param(
            GptOss(),
            [
                "<|channel|>final<|message|>Hi",
                HARMONY_CALL,
                f"<|channel|>analysis<|message|>so<|end|><|start|>assistant{HARMONY_CALL}",
                f" to=functions.weather<|channel|>commentary json<|message|>{PARIS}",
            ],
            [HARMONY_CALL.replace("Paris", "P" * 99), HARMONY_CALL.replace("weather", "other")],
            id="gpt-oss",
        ),
    ],
)
def test_calls_that_the_model_may_make(
    judge: Judge, family: Family, good: list[str], bad: list[str]
) -> None:
    held = constraint(None, family, TOOLS, several=True, thinking=Thinking(), free=True)
    for text in good:
        assert judge.accepts(held.grammar, text), text
    for text in bad:
        assert not judge.accepts(held.grammar, text), text


def test_a_thought_of_a_call_is_free(judge: Judge) -> None:
    thinking = Thinking(False, (THINK,))
    held = constraint(None, Tagged(), TOOLS, several=True, thinking=thinking, free=True)
    assert judge.accepts(held.grammar, "<think>a <tool_call>?</think>Hi")
    assert not judge.accepts(held.grammar, "<think>a</think>Hi <tool_call>?")


CONTENT = "{}"


@pytest.mark.parametrize(
    ("thinking", "good", "bad"),
    [
        pytest.param(Thinking(), [CONTENT], [f"<think>a</think>{CONTENT}"], id="none"),
        pytest.param(
            Thinking(True, (THINK,)),
            [f"so <b> </think>\n\n{CONTENT}", f"</think>{CONTENT}"],
            [CONTENT, f"a</think>b{CONTENT}"],
            id="open",
        ),
        pytest.param(
            Thinking(False, (THINK,)),
            [CONTENT, f"<think>\nso\n</think>\n\n{CONTENT}"],
            [f"so{CONTENT}", f"<think>so {CONTENT}"],
            id="may think",
        ),
        pytest.param(
            Thinking(False, (HARMONY,)),
            [
                f"<|channel|>final<|message|>{CONTENT}",
                "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
                f"<|channel|>final<|message|>{CONTENT}",
            ],
            [CONTENT],
            id="gpt-oss",
        ),
    ],
)
def test_thinking_first(judge: Judge, thinking: Thinking, good: list[str], bad: list[str]) -> None:
    form = ResponseFormat("json_object")
    held = constraint(form, Bare(), (), several=True, thinking=thinking)
    for text in good:
        assert judge.accepts(held.grammar, text), text
        splitter = ReasoningSplitter(thinking.open, thinking.formats or FORMATS)
        parts = [*splitter.feed(text), *splitter.finish()]
        assert "".join(part.text for part in parts if part.kind == "content") == CONTENT
    for text in bad:
        assert not judge.accepts(held.grammar, text), text
    assert held.kept >= {mark for one in thinking.formats for mark in one.opens}


ODD = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}


def test_a_tool_whose_schema_cannot_be_honoured_takes_any_object(judge: Judge) -> None:
    held = constraint(
        None, Bare(), (Tool("f", parameters=ODD),), several=False, thinking=Thinking()
    )
    assert judge.accepts(held.grammar, '{"name": "f", "arguments": {"x":1}}')
    (note,) = held.notes
    assert "`f`" in note and "uniqueItems" in note


def test_a_strict_tool_or_a_form_is_refused_instead() -> None:
    with pytest.raises(SchemaError) as caught:
        strict = Tool("f", parameters=ODD, strict=True)
        constraint(None, Bare(), (strict,), several=False, thinking=Thinking())
    assert caught.value.path == "tools/f/parameters/properties/a"
    with pytest.raises(SchemaError) as caught:
        form = ResponseFormat("json_schema", ODD)
        constraint(form, Bare(), (), several=False, thinking=Thinking())
    assert caught.value.path == "response_format/properties/a"


@pytest.mark.parametrize(
    ("source", "family"),
    [
        (None, Bare()),
        ("{{ messages }}", Bare()),
        ("<tool_call>", Tagged()),
        ("<tool_call><function=", Tagged(functions=True)),
        ("[TOOL_CALLS] [", Mistral()),
        ("[TOOL_CALLS]x[ARGS]", Mistral(one_by_one=True)),
        ("<|tool_call>call:", Gemma()),
        ("<|channel|>commentary", GptOss()),
        ("<|tool_call|>", Bare(mark="<|tool_call|>")),
        ("Environment: ipython", Bare(arguments="parameters")),
    ],
)
def test_the_template_tells_the_family(source: str | None, family: Family) -> None:
    assert family_of(source) == family


def test_too_many_tools_are_refused() -> None:
    members = {f"p{n}": {"enum": [n]} for n in range(300)}
    parameters = {"type": "object", "properties": members}
    tools = [
        Tool(f"f{n}", parameters={**parameters, "required": [f"p{n}"]}, strict=True)
        for n in range(100)
    ]
    with pytest.raises(SchemaError, match="too large"):
        constraint(None, Bare(), tools, several=True, thinking=Thinking())
