"""Calls in the text of answers: every family, cut anywhere."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex.chat.reasoning import Part
from geniex.chat.tool_calls.families import FAMILIES
from geniex.chat.tool_calls.reader import CallReader
from geniex.chat.tools import Tool, ToolCallPart

TOOLS = [
    Tool("weather", parameters={"properties": {"city": {"type": "string"}, "days": {}}}),
    Tool("now"),
]
Said = tuple[str, list[tuple[str, str]]]


def read(pieces: list[str], *, parallel: bool = True, required: bool = False) -> Said:
    """The content of an answer, and its calls; every part is checked on the way."""
    reader = CallReader(TOOLS, FAMILIES, parallel=parallel, required=required)
    whole = "".join(pieces)
    out: list[Part | ToolCallPart] = []
    at = 0
    for piece in pieces:
        out += reader.feed(Part("content", piece, at=at))
        at += len(piece)
    out += reader.finish()
    content = ""
    calls: list[list[str]] = []
    ids = set()
    for part in out:
        if isinstance(part, Part):
            assert part.text and whole.startswith(part.text, part.at)
            content += part.text
        elif part.id is not None:
            assert part.name and part.index == len(calls)
            assert re.fullmatch(r"call_[A-Za-z0-9]{24}", part.id) and part.id not in ids
            ids.add(part.id)
            calls.append([part.name, part.arguments])
        else:
            assert part.name is None and part.arguments and part.index == len(calls) - 1
            calls[-1][1] += part.arguments
    return content, [(name, arguments) for name, arguments in calls]


PARIS = '{"city": "Paris"}'
WEATHER = f'{{"name": "weather", "arguments": {PARIS}}}'
NOW = '{"name": "now", "arguments": {}}'
PARIS_CALL, NOW_CALL = ("weather", PARIS), ("now", "{}")
BOTH = [PARIS_CALL, NOW_CALL]
QUOTE = '<|"|>'

CALLS = [
    pytest.param(f"<tool_call>\n{WEATHER}\n</tool_call>", "", [PARIS_CALL], id="hermes"),
    pytest.param(
        f"<tool_call>{WEATHER}</tool_call>\n<tool_call>\n{NOW}</tool_call>\n",
        "",
        BOTH,
        id="hermes twice",
    ),
    pytest.param(
        f"I look.\n\n<tool_call>{NOW}</tool_call>", "I look.", [NOW_CALL], id="hermes behind words"
    ),
    pytest.param(
        f"<tool_call>{NOW}</tool_call>\n\nDone.", "\n\nDone.", [NOW_CALL], id="hermes before words"
    ),
    pytest.param(f"<tool_call>{NOW}", "", [NOW_CALL], id="hermes without the closing tag"),
    pytest.param('<tool_call>{"name": "now"}</tool_call>', "", [NOW_CALL], id="no arguments"),
    pytest.param(
        f'<tool_call>{{"arguments": {PARIS}, "name": "weather"}}</tool_call>',
        "",
        [PARIS_CALL],
        id="order",
    ),
    pytest.param(
        '<tool_call>{"id": "x", "type": "function", "function": {"name": "weather", "arguments": '
        f"{json.dumps(PARIS)}}}}}</tool_call>",
        "",
        [PARIS_CALL],
        id="as the API has it, arguments in a string",
    ),
    pytest.param(
        '<tool_call>{"name": "weather", "arguments": {"city": "</tool_call> \\" }{"}}</tool_call>',
        "",
        [("weather", '{"city": "</tool_call> \\" }{"}')],
        id="marks in strings",
    ),
    pytest.param(
        '<tool_call>{"name": "weather", "arguments": {"city": "P</tool_call>',
        "",
        [("weather", '{"city": "P</tool_call>')],
        id="cut within a string",
    ),
    pytest.param(
        '<tool_call>{"name": "weather", "arguments": {"days": 3</tool_call> x',
        " x",
        [("weather", '{"days": 3')],
        id="a brace too few",
    ),
    pytest.param(
        "<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n12\n"
        "</parameter>\n<parameter=x>\na\nb\n</parameter>\n</function>\n</tool_call>",
        "",
        [("weather", '{"city": "12", "days": 12, "x": "a\\nb"}')],
        id="qwen coder",
    ),
    pytest.param(
        "<function=weather><parameter=days>NaN</parameter></function>",
        "",
        [("weather", '{"days": "NaN"}')],
        id="qwen coder, no JSON",
    ),
    pytest.param("<function=now>\n</function>", "", [NOW_CALL], id="qwen coder, nothing given"),
    pytest.param(f"<function=weather>{PARIS}</function>", "", [PARIS_CALL], id="llama custom"),
    pytest.param(WEATHER, "", [PARIS_CALL], id="json"),
    pytest.param(f" \n{WEATHER.replace('arguments', 'parameters')}", "", [PARIS_CALL], id="llama"),
    pytest.param(f"<|python_tag|>{WEATHER}; {NOW}", "", BOTH, id="llama twice"),
    pytest.param(f"```json\n{WEATHER}\n```", "", [PARIS_CALL], id="fenced"),
    pytest.param(f"So:\n```\n{WEATHER}\n{NOW}\n```\nx", "So:\nx", BOTH, id="fenced behind words"),
    pytest.param(f"{WEATHER}\n{NOW}\nDone", "\nDone", BOTH, id="json twice, and words"),
    pytest.param(f"[{WEATHER}, {NOW}]", "", BOTH, id="list"),
    pytest.param(f"So: {WEATHER}.", "So:.", [PARIS_CALL], id="json among words"),
    pytest.param(f"So:\n[{WEATHER}, {NOW}]\n", "So:", BOTH, id="list behind words"),
    pytest.param('{"name": "now", "arguments": null}', "", [NOW_CALL], id="null arguments"),
    pytest.param(f"[TOOL_CALLS] [{WEATHER}, {NOW}]", "", BOTH, id="mistral"),
    pytest.param(
        f"[TOOL_CALLS]weather[ARGS]{PARIS}[TOOL_CALLS]now[CALL_ID]a1[ARGS]{{}}",
        "",
        BOTH,
        id="mistral new",
    ),
    pytest.param(f"[TOOL_CALLS]weather{PARIS}", "", [PARIS_CALL], id="mistral without [ARGS]"),
    pytest.param(
        f'<|tool_call>call:weather{{city:{QUOTE}Par"is\n{QUOTE},days: [1, -2.5,true ,{{a:null}}]}}'
        "<tool_call|><|tool_call>call:now{}<tool_call|>",
        "",
        [("weather", '{"city":"Par\\"is\\n","days":[1,-2.5,true,{"a":null}]}'), NOW_CALL],
        id="gemma",
    ),
    pytest.param(
        f"<|tool_call>call:weather{{{QUOTE}city{QUOTE}: Paris }}<tool_call|>.",
        ".",
        [("weather", '{"city":"Paris"}')],
        id="gemma, loosely",
    ),
    pytest.param(
        f"<|tool_call>call:weather{{city:{QUOTE}Par",
        "",
        [("weather", '{"city":"Par')],
        id="gemma cut",
    ),
    pytest.param(
        f"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{PARIS}",
        "",
        [PARIS_CALL],
        id="gpt-oss",
    ),
    pytest.param(
        f"<|start|>assistant<|channel|>commentary to=weather<|message|>{PARIS}<|call|>",
        "",
        [PARIS_CALL],
        id="gpt-oss with its start",
    ),
    pytest.param(
        f" to=functions.weather<|channel|>commentary json<|message|>{PARIS}",
        "",
        [PARIS_CALL],
        id="gpt-oss, addressed first",
    ),
    pytest.param(
        f"[TOOL_CALLS]other <tool_call>{NOW}</tool_call>",
        "[TOOL_CALLS]other",
        [NOW_CALL],
        id="in one",
    ),
    pytest.param(f"<|tool_call|>[{WEATHER}]<|/tool_call|>", "", [PARIS_CALL], id="granite, phi"),
    pytest.param(
        f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "weather", "parameters": {PARIS}}}]'
        "<|END_ACTION|>",
        "",
        [PARIS_CALL],
        id="command",
    ),
]


@pytest.mark.parametrize(("answer", "content", "calls"), CALLS)
def test_calls_are_read(answer: str, content: str, calls: list[tuple[str, str]]) -> None:
    assert read([answer]) == (content, calls)
    assert read(list(answer)) == (content, calls)


@pytest.mark.parametrize("answer", [param.values[0] for param in CALLS])
def test_one_call_and_no_more(answer: object) -> None:
    assert isinstance(answer, str)
    _, calls = read([answer])
    _, first = read(list(answer), parallel=False)
    assert first == calls[:1]


NO_CALLS = [
    *(
        "",
        " \n",
        "plain words",
        "a < b, [TOOL, <tool",
        '{"answer": 42}',
        "[1, 2]",
        '{"name": "now"}',
    ),
    *("```python\nprint(1)\n```", "```json\n[]\n```", "<tool_call>", "<tool_call>now</tool_call>"),
    WEATHER.replace("weather", "other"),
    f"words before {WEATHER.replace('weather', 'other')}",
    '<tool_call>{"name": "now", "arguments": "three"}</tool_call>',
    'so {"name": "Ada", "age": 3} it is',
    f"<tool_call>{NOW.replace('now', 'new')}</tool_call>",
    '<tool_call>{"name": "now", "arguments": [1]}</tool_call>',
    '<tool_call>{"name": "now", "arguments": 3}</tool_call>',
    '<tool_call>{"name": "now", "arguments": "three"',
    "<function=other><parameter=a>b</parameter></function>",
    "[TOOL_CALLS]other[ARGS]{}",
    "[TOOL_CALLS][1]",
    "<|tool_call>call:other{}<tool_call|>",
    "<|tool_call>call:weather",
    "<|channel|>commentary to=functions.other<|message|>{}",
    "<|channel|>final<|message|>Hi",
    "<|python_tag|>now.call()",
]


@pytest.mark.parametrize("answer", NO_CALLS)
def test_what_is_no_call_is_content_unchanged(answer: str) -> None:
    assert read([answer]) == (answer, [])
    assert read(list(answer)) == (answer, [])


@pytest.mark.parametrize(
    "call",
    [
        f"<tool_call>\n{WEATHER}\n</tool_call>",
        WEATHER,
        f"[TOOL_CALLS][{WEATHER}]",
        f"[TOOL_CALLS]weather[ARGS]{PARIS}",
        f"<|tool_call>call:weather{{city:{QUOTE}Paris{QUOTE}}}<tool_call|>",
        f"<|channel|>commentary to=functions.weather json<|message|>{PARIS}",
        f"<|tool_call|>[{WEATHER}]<|/tool_call|>",
    ],
)
def test_a_required_call_that_breaks_off_is_no_content(call: str) -> None:
    begun = 0
    for end in range(len(call) + 1):
        content, calls = read([call[:end]], required=True)
        assert content == "" and all(name == "weather" for name, _ in calls)
        begun += bool(calls)
        assert read([NOW, "\n", call[:end]], required=True)[0] == ""
    assert 0 < begun < len(call)


@pytest.mark.parametrize("answer", ["plain words", "a < b", "so {that} it is"])
def test_what_is_surely_no_required_call_is_content(answer: str) -> None:
    assert read([answer], required=True) == read(list(answer), required=True) == (answer, [])


FRAGMENTS = st.sampled_from(
    [
        *(mark for family in FAMILIES for mark in (*family.marks, *family.starts)),
        *(mark[:-2] for family in FAMILIES for mark in family.marks),
        *(
            WEATHER,
            NOW,
            PARIS,
            "{}",
            "[",
            "]",
            ",",
            '"',
            QUOTE,
            "call:now",
            "weather",
            "now",
            "other",
        ),
        *(
            "</tool_call>",
            "</function>",
            "<parameter=city>",
            "</parameter>",
            "[ARGS]",
            "<tool_call|>",
        ),
        *(
            " to=functions.now",
            "<|message|>",
            "<|call|>",
            "json",
            "\n",
            " ",
            "é",
            "\\",
            ">",
            "}",
            "{",
        ),
    ]
)
ANSWERS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=3)), max_size=12).map("".join)


@settings(deadline=None)
@given(ANSWERS, st.booleans(), st.booleans(), st.data())
def test_how_the_text_is_cut_never_matters(
    answer: str, parallel: bool, required: bool, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(answer)), max_size=20)) | {0, len(answer)})
    pieces = [answer[a:b] for a, b in pairwise(cuts)]
    how = {"parallel": parallel, "required": required}
    assert read(pieces, **how) == read([answer], **how)


@settings(deadline=None)
@given(ANSWERS)
def test_an_answer_without_calls_is_whole(answer: str) -> None:
    content, calls = read(list(answer))
    if not calls:
        assert content == answer


@pytest.mark.parametrize("answer", [param.values[0] for param in CALLS])
def test_arguments_come_while_they_are_written(answer: object) -> None:
    assert isinstance(answer, str)
    reader = CallReader(TOOLS, FAMILIES)
    parts = [part for char in answer for part in reader.feed(Part("content", char))]
    pieces = [p for p in [*parts, *reader.finish()] if isinstance(p, ToolCallPart) and p.index == 0]
    whole = "".join(piece.arguments for piece in pieces)
    in_one = any(
        text in answer for text in ("<parameter", '"{', '"arguments": {"city": "Paris"}, "name')
    )
    assert len(pieces) > 3 or in_one or whole == "{}"


@pytest.mark.parametrize("form", ["json", "xml"])
def test_a_long_answer_is_read_in_good_time(form: str) -> None:
    arguments = json.dumps({"city": "x" * 200_000, "days": ['{"'] * 5_000})
    text = f'<tool_call>{{"name": "weather", "arguments": {arguments}}}</tool_call>'
    if form == "xml":
        arguments = json.dumps({"city": "x" * 200_000})
        text = f"<function=weather><parameter=city>{'x' * 200_000}</parameter></function>"
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    assert read(pieces) == ("", [("weather", arguments)])
