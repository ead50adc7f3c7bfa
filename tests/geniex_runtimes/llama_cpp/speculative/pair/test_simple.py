"""Simple drafts: small models of the same vocabulary."""

import shutil
from pathlib import Path

import pytest

from geniex_catalogue.gguf import read_header
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp.speculative.pair import check_simple
from tests.geniex_runtimes.llama_cpp.speculative.pair.files import (
    TOKENS,
    Entries,
    target_file,
    write,
)

SIMPLE: Entries = {"block_count": 2, "embedding_length": 48, "attention.head_count": 4}


def check_simple_files(target: Path, draft: Path | None) -> None:
    header = read_header(draft) if draft is not None else None
    check_simple(read_header(target), target, header, draft)


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        pytest.param({}, {}, id="equal"),
        pytest.param({}, {"tokenizer.ggml.tokens": TOKENS[:-128]}, id="128-fewer"),
        pytest.param({}, {"tokenizer.ggml.tokens": [*TOKENS, "x", "y"]}, id="2-more"),
        pytest.param({}, {"tokenizer.ggml.add_bos_token": True}, id="bos-by-default"),
        pytest.param(
            {"tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.bos_token_id": 2},
            {"tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.bos_token_id": 0},
            id="bos-not-added",
        ),
        pytest.param({}, {"embedding_length": 96}, id="as-wide"),
    ],
)
def test_simple_drafts_that_fit(tmp_path: Path, target: Entries, draft: Entries) -> None:
    path = write(tmp_path / "draft.gguf", "llama", SIMPLE, draft)
    check_simple_files(target_file(tmp_path, target), path)


@pytest.mark.parametrize(
    ("architecture", "changes", "says"),
    [
        pytest.param("llama", {"tokenizer.ggml.tokens": TOKENS[:-129]}, "171 tokens", id="fewer"),
        pytest.param(
            "llama",
            {"tokenizer.ggml.tokens": [*TOKENS, *(f"x{n}" for n in range(129))]},
            "429 tokens",
            id="more",
        ),
        pytest.param(
            "llama",
            {"tokenizer.ggml.tokens": ["<PAD>", *TOKENS[1:-9]]},
            "'<PAD>' as token 0",
            id="first-token",
        ),
        pytest.param("llama", {"tokenizer.ggml.model": "gpt2"}, "has gpt2", id="tokenizer"),
        pytest.param("llama", {"tokenizer.ggml.pre": "qwen2"}, "has qwen2", id="pre-tokenizer"),
        pytest.param(
            "llama",
            {"tokenizer.ggml.add_bos_token": False},
            "`add_bos_token` differ: `draft.gguf` has False, `target.gguf` has True",
            id="bos-added",
        ),
        pytest.param("llama", {"tokenizer.ggml.bos_token_id": 7}, "has 7", id="bos"),
        pytest.param("gemma4-assistant", {}, "does not run alone", id="assistant"),
        pytest.param("eagle3", {}, "does not run alone", id="eagle"),
        pytest.param("t5", {}, "does not write token by token", id="encoder-decoder"),
        pytest.param("mamba", {}, "recurrent layers (mamba)", id="recurrent"),
        pytest.param("qwen35", {}, "recurrent layers (qwen35)", id="hybrid"),
        pytest.param("bert", {}, "an embedding model, not a draft", id="embedding"),
        pytest.param("clip", {}, "a projector", id="projector"),
        pytest.param("llama", {"general.type": "adapter"}, "a LoRA adapter", id="adapter"),
    ],
)
def test_simple_drafts_that_do_not_fit(
    tmp_path: Path, architecture: str, changes: Entries, says: str
) -> None:
    ends = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 2}
    path = write(tmp_path / "draft.gguf", architecture, SIMPLE, changes)
    with pytest.raises(SpeculativeError) as caught:
        check_simple_files(target_file(tmp_path, ends), path)
    assert says in caught.value.message
    assert "\n" not in caught.value.message


def test_a_simple_draft_is_missing_or_the_target(tmp_path: Path) -> None:
    target = target_file(tmp_path)
    with pytest.raises(SpeculativeError, match=r"needs a draft for `target\.gguf`"):
        check_simple_files(target, None)
    shutil.copy(target, tmp_path / "copy.gguf")
    check_simple_files(target, tmp_path / "copy.gguf")
    with pytest.raises(SpeculativeError, match="is the target itself"):
        check_simple_files(target, target)


def test_simple_drafts_of_real_files(toys: Path, tiny_chat: Path) -> None:
    target = toys / "g4-markov-target.gguf"
    check_simple_files(target, toys / "g4-random-target.gguf")
    check_simple_files(target, toys / "mimo-mix.gguf")
    with pytest.raises(SpeculativeError, match="tokenizers differ"):
        check_simple_files(target, tiny_chat)
