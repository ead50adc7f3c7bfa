"""Our JSON grammar, judged by llama.cpp on the built-in model's vocabulary."""

import json

import pytest

from geniex.grammar import JSON_GRAMMAR
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
