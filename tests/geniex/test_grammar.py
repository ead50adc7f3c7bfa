"""Our JSON grammar, judged by llama.cpp on the built-in model's vocabulary."""

import json
from pathlib import Path

import pytest

from geniex.config import Settings
from geniex.grammar import JSON_GRAMMAR, Marks
from geniex.session import open_model
from geniex_runtimes.fake import FakeRuntime
from geniex_runtimes.options import SamplingOptions
from tests.geniex.conftest import Scripted
from tests.geniex.judge import Judge

GOOD = (
    "{}",
    '{"a": 1}',
    '{"a":[1,-2.5,3e8,0,true,false,null],"b":{"c":"d"}}',
    '{"text": "a \\"quoted\\" word, a \\\\, \\u00e9 and café"}',
    '{\n  "a": [\n    {"b": 1},\n    []\n  ]\n}',
)


@pytest.mark.parametrize("text", GOOD)
def test_json_passes(judge: Judge, text: str) -> None:
    json.loads(text)
    assert judge.accepts(JSON_GRAMMAR, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[1]",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 01}',
        '{"a": .5}',
        '{"a": "line\nbreak"}',
        '{"a": "\\x"}',
        '{"a": 1',
        '{"a": 1} and more',
        '{"a": 1}\n',
        "{" + " " * 40 + "}",
    ],
)
def test_all_else_does_not(judge: Judge, text: str) -> None:
    assert not judge.accepts(JSON_GRAMMAR, text)


def test_marks_of_the_chat_format_are_not_drawn(scripted: Scripted, tmp_path: Path) -> None:
    # the scripted vocabulary has one mark, which ends the answer
    scripted(FakeRuntime(name="llama_cpp"))
    with open_model("geniex/tiny-chat", Settings(tmp_path)) as model:
        assert Marks(model.loaded).held_to("root ::= [a]", SamplingOptions()).logit_bias == ()


def test_marks_that_belong_to_the_grammar_may_be_drawn(tmp_path: Path) -> None:
    with open_model("geniex/tiny-chat", Settings(tmp_path)) as model:
        marks, loaded = Marks(model.loaded), model.loaded
        for keep in (frozenset[str](), frozenset({"<|tool_call>"})):
            held = marks.held_to("root ::= [a]", SamplingOptions(logit_bias=((7, 1.0),)), keep)
            assert held.logit_bias[0] == (7, 1.0)
            texts = {loaded.detokenize([token]) for token, _ in held.logit_bias[1:]}
            assert texts == loaded.info.control_tokens - loaded.info.end_tokens - keep
