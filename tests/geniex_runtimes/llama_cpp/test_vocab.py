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
    monkeypatch.setattr(module, "_LONG", 1 << 40)
    whole = tiny.tokenize(prompt)
    for name, other in (("_AT_ONCE", "_LONG"), ("_LONG", "_AT_ONCE")):
        monkeypatch.setattr(module, other, 1 << 40)
        for length in (1, 2, 7, 30, 100):
            monkeypatch.setattr(module, name, length)
            assert tiny.tokenize(prompt) == whole


def test_no_part_is_long(tiny: LlamaCppModel, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    native = Vocab._tokenize

    def tokenize(self: Vocab, text: bytes, **options: Any) -> list[int]:
        lengths.append(len(text))
        return native(self, text, **options)

    monkeypatch.setattr(Vocab, "_tokenize", tokenize)
    text = "".join(f"<|turn>user\n{number}<turn|>\n" for number in range(10_000))
    assert len(tiny.tokenize([PromptPiece(text)])) > 10_000
    assert sum(lengths) == len(text)
    assert max(lengths) < 20_000


def test_what_a_chat_has_told_before_is_not_tokenized_again(
    tiny: LlamaCppModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[bytes] = []
    native = Vocab._tokenize

    def tokenize(self: Vocab, text: bytes, **options: Any) -> list[int]:
        texts.append(text)
        return native(self, text, **options)

    chat = "".join(f"<|turn>user\nquestion {number}<turn|>\n" for number in range(500))
    before = tiny.tokenize([PromptPiece(chat)])
    monkeypatch.setattr(Vocab, "_tokenize", tokenize)
    longer = tiny.tokenize([PromptPiece(chat + "<|turn>model\nanswer<turn|>\n")])
    assert sum(map(len, texts)) < 1200
    assert longer[: len(before) - 20] == before[:-20]
    # what was literal is another text
    assert tiny.tokenize([PromptPiece(chat, literal=True)]) != before


def test_a_long_text_without_special_tokens_is_whole(tiny: LlamaCppModel) -> None:
    text = "word " * 10_000
    assert tiny.tokenize([PromptPiece(text)]) == tiny.tokenize([PromptPiece(text, literal=True)])
