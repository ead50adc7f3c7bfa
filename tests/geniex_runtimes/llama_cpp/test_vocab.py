"""Long prompts have the tokens of the whole, though llama.cpp gets them in parts."""

from typing import Any

import pytest

from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.llama_cpp import vocab as module
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.llama_cpp.vocab import Vocab

TURNS = [
    "<|turn>user\nx<turn|>\n",
    "<|turn>model\n  two  words <turn|>   \n\n\t<|turn>tool\n<turn|><turn|>",
    "<|turn><|turn> a<turn|>é<|turn>\u00a0b<turn|>\u3000c",
]


@pytest.mark.parametrize("turn", TURNS)
def test_a_prompt_in_parts_has_the_tokens_of_the_whole(
    tiny: LlamaCppModel, monkeypatch: pytest.MonkeyPatch, turn: str
) -> None:
    prompt = [PromptPiece(turn * 40)]
    monkeypatch.setattr(module, "_AT_ONCE", 1 << 40)
    whole = tiny.tokenize(prompt)
    for at_once in (1, 2, 7, 30, 100):
        monkeypatch.setattr(module, "_AT_ONCE", at_once)
        assert tiny.tokenize(prompt) == whole


def test_no_part_is_long(tiny: LlamaCppModel, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    native = Vocab._tokenize

    def tokenize(self: Vocab, text: bytes, **options: Any) -> list[int]:
        lengths.append(len(text))
        return native(self, text, **options)

    monkeypatch.setattr(Vocab, "_tokenize", tokenize)
    text = TURNS[0] * 10_000
    assert len(tiny.tokenize([PromptPiece(text)])) > 10_000
    assert sum(lengths) == len(text)
    assert max(lengths) < 20_000


def test_a_long_text_without_special_tokens_is_whole(tiny: LlamaCppModel) -> None:
    text = "word " * 10_000
    assert tiny.tokenize([PromptPiece(text)]) == tiny.tokenize([PromptPiece(text, literal=True)])
