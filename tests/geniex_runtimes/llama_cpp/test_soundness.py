"""Models whose parts contradict each other: refused before llama.cpp sees them."""

from dataclasses import replace
from pathlib import Path

import pytest

from geniex_catalogue.errors import GGUFError
from geniex_catalogue.gguf import read_header
from geniex_runtimes.llama_cpp import soundness
from geniex_runtimes.llama_cpp.speculative import setup
from geniex_runtimes.options import LoadOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import resolved
from tests.ggufwriter import build, entry, parsed, tensor

FACTS: dict[str, object] = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.embedding_length": 32,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["a", "b"],
    "tokenizer.ggml.token_type": [1, 1],
}


def fault(tables: tuple[int, int] = (32, 2), vector: int = 0, **changes: object) -> str:
    """What is said of a model with other facts; `__` stands for `.`, None leaves one out."""
    facts = FACTS | {key.replace("__", "."): value for key, value in changes.items()}
    entries = [entry(key, value) for key, value in facts.items() if value is not None]
    size = 4 * tables[0] * tables[1]
    tensors = [
        tensor("token_embd.weight", tables),
        tensor("output_norm.weight", [32], vector, size),
    ]
    header = parsed(build(entries, tensors, size + 128))
    try:
        soundness.check(Path("/x/model.gguf"), header)
    except GGUFError as exc:
        assert exc.message.startswith("`model.gguf` is not a usable GGUF file: ")
        assert exc.hint
        return exc.reason
    return ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"llama__block_count": 0}, "0 layers", id="no-layers"),
        pytest.param({"llama__block_count": 2**31}, "2147483648 layers", id="layers"),
        pytest.param({"llama__embedding_length": 2**31}, "embedding_length", id="huge-width"),
        pytest.param({"llama__embedding_length": 64}, "width is 64", id="width"),
        pytest.param({"llama__attention__key_length": 2**30}, "key_length", id="head"),
        pytest.param({"tokenizer__ggml__tokens": None}, "is missing", id="no-tokens"),
        pytest.param({"tokenizer__ggml__tokens": ["a"]}, "weights are for 2", id="tokens"),
        pytest.param({"tokenizer__ggml__token_type": [1]}, "1 of their `token_type`", id="types"),
        pytest.param({"tables": (32, 3)}, "weights are for 3", id="table"),
        pytest.param({"vector": 8}, "of type Q8_0", id="quantized-vector"),
    ],
)
def test_what_contradicts_itself(changes: dict[str, object], says: str) -> None:
    assert says in fault(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="as it is"),
        pytest.param({"tokenizer__ggml__model": None}, id="no-tokenizer"),
        pytest.param(
            {"tokenizer__ggml__model": "none", "tokenizer__ggml__tokens": None}, id="none-of-text"
        ),
        pytest.param({"tokenizer__ggml__token_type": [1, 1, 1]}, id="more-types-than-tokens"),
        pytest.param({"llama__block_count": None}, id="unknown-layers"),
    ],
)
def test_what_llama_cpp_is_to_judge(changes: dict[str, object]) -> None:
    assert fault(**changes) == ""  # type: ignore[arg-type]


def test_good_models(tiny_chat: Path, tiny_chat_draft: Path, toys: Path) -> None:
    for path in (tiny_chat, tiny_chat_draft, *toys.glob("*.gguf")):
        soundness.check(path, read_header(path))


def test_a_draft_that_contradicts_itself(tiny_chat: Path, tiny_chat_draft: Path) -> None:
    draft = resolved(tiny_chat_draft)
    assert draft.header is not None
    key = "gemma4-assistant.block_count"
    header = replace(draft.header, metadata={**draft.header.metadata, key: 600})
    options = LoadOptions(
        speculative=SpeculativeOptions(types=("draft-mtp",)), draft=replace(draft, header=header)
    )
    wanted = setup.checked(resolved(tiny_chat), options)
    assert wanted.options.types == ()
    assert "600 layers" in wanted.warnings[-1]
