"""Text to tokens and tokens to bytes, for the kinds of tokenizer that bundles come with."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from geniex_catalogue.errors import BundleError, UsageError
from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.qairt.vocabulary import Vocabulary

BOS, END, THINK = 0, 1, 2
_SPECIAL = {"<s>": BOS, "<|end|>": END, "<think>": THINK}


def _byte_level() -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = _SPECIAL | {char: 3 + at for at, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _byte_fallback() -> Any:
    """As Llama 2 and its kin have it."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = ["▁", *"abcdeghilnorstu<|>"]
    vocab = {name: at for at, name in enumerate([*_SPECIAL, *bytes_, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def _prefixed() -> Any:
    """As `_byte_fallback`, with a space before each text."""
    tokenizer = _byte_fallback()
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return tokenizer


def _saved(tokenizer: Any, folder: Path) -> Vocabulary:
    tokenizer.add_tokens([AddedToken(text, special=text != "<think>") for text in _SPECIAL])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return Vocabulary(path, 300, BOS)


@pytest.fixture(scope="module", params=[_byte_level, _byte_fallback], ids=["bytes", "fallback"])
def vocabulary(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Vocabulary:
    return _saved(request.param(), tmp_path_factory.mktemp("tokenizer"))


@given(text=st.text(max_size=30))
def test_literal_text_comes_back(vocabulary: Vocabulary, text: str) -> None:
    tokens = vocabulary.tokenize([PromptPiece(text, literal=True)])
    clean = text.encode("utf-8", "replace").decode()
    assert vocabulary.detokenize(tokens) == "<s>" + clean


@pytest.mark.parametrize("text", ["<|end|>", "a<|end|>b", "<<|end|>>", "<think> <|end|><s>"])
def test_special_tokens_are_text_in_literal_text(vocabulary: Vocabulary, text: str) -> None:
    literal = vocabulary.tokenize([PromptPiece(text, literal=True)])
    assert not {END, THINK} & set(literal) and literal.count(BOS) == 1
    assert vocabulary.detokenize(literal) == "<s>" + text
    special = vocabulary.tokenize([PromptPiece(text)])
    assert END in special
    assert vocabulary.detokenize(special) == "<s>" + text


def test_pieces_of_one_kind_are_one_text(vocabulary: Vocabulary) -> None:
    cut = [PromptPiece("<|e"), PromptPiece("nd|>"), PromptPiece(""), PromptPiece("a", literal=True)]
    tokens = vocabulary.tokenize(cut)
    assert tokens[:2] == [BOS, END]
    assert vocabulary.tokenize([PromptPiece("<s><s>a")]) == [BOS, tokens[-1]]
    assert vocabulary.tokenize([]) == [BOS]


def test_a_space_before_each_text_is_one_before_the_first(tmp_path: Path) -> None:
    """A text is cut where markers have to be text; the tokenizer is not to notice."""
    vocabulary = _saved(_prefixed(), tmp_path)
    text = "a <|end|> b<think>c"
    cut = [PromptPiece("no "), PromptPiece(text, literal=True), PromptPiece("d\n")]
    tokens = vocabulary.tokenize(cut)
    assert vocabulary.detokenize(tokens) == f"<s> no {text}d\n"
    # behind a special token a text begins anew, as the tokenizer has it
    turn = [PromptPiece("<|end|>"), PromptPiece("a", literal=True)]
    assert vocabulary.detokenize(vocabulary.tokenize(turn)) == "<s><|end|> a"


def test_bytes_of_tokens(vocabulary: Vocabulary) -> None:
    pieces = vocabulary.pieces()
    assert pieces[:3] == [b"<s>", b"<|end|>", b"<think>"]
    assert {bytes([byte]) for byte in range(256)} <= set(pieces)
    assert pieces[299] == b""
    with pytest.raises(UsageError, match="token 300 is not in the vocabulary of 300 tokens"):
        vocabulary.detokenize([300])


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {}}', encoding="utf-8")
    with pytest.raises(BundleError, match="is no tokenizer that can be used"):
        Vocabulary(path, 300, None)
