"""Our JSON grammar, judged by llama.cpp on the built-in model's vocabulary."""

import ctypes
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import llama_cpp
import pytest

from geniex.grammar import JSON_GRAMMAR

Accepts = Callable[[str], bool]


@pytest.fixture(scope="module")
def accepts(tiny_chat: Path) -> Iterator[Accepts]:
    """Whether the grammar lets a text through, token by token, to its end."""
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(tiny_chat).encode(), params)
    vocab = llama_cpp.llama_model_get_vocab(model)
    end = llama_cpp.llama_vocab_eos(vocab)

    def check(text: str) -> bool:
        data = text.encode()
        room = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(vocab, data, len(data), room, len(room), False, False)
        grammar = llama_cpp.llama_sampler_init_grammar(vocab, JSON_GRAMMAR.encode(), b"root")
        assert grammar, "llama.cpp does not take the grammar"
        try:
            return all(_allowed(grammar, token) for token in (*room[:count], end))
        finally:
            llama_cpp.llama_sampler_free(grammar)

    yield check
    llama_cpp.llama_model_free(model)


def _allowed(grammar: object, token: int) -> bool:
    one = (llama_cpp.llama_token_data * 1)(llama_cpp.llama_token_data(token, 1.0, 0.0))
    choice = llama_cpp.llama_token_data_array(one, 1, -1, False)
    llama_cpp.llama_sampler_apply(grammar, ctypes.byref(choice))
    if one[0].logit == float("-inf"):
        return False
    llama_cpp.llama_sampler_accept(grammar, token)
    return True


GOOD = (
    "{}",
    '{"a": 1}',
    '{"a":[1,-2.5,3e8,0,true,false,null],"b":{"c":"d"}}',
    '{"text": "a \\"quoted\\" word, a \\\\, \\u00e9 and café"}',
    '{\n  "a": [\n    {"b": 1},\n    []\n  ]\n}',
)


@pytest.mark.parametrize("text", GOOD)
def test_json_passes(accepts: Accepts, text: str) -> None:
    json.loads(text)
    assert accepts(text)


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
def test_all_else_does_not(accepts: Accepts, text: str) -> None:
    assert not accepts(text)
