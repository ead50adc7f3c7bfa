"""Vectors through the public door, judged by llama-cpp-python's own loop on the same files."""

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from geniex_catalogue.errors import LoadError, UsageError
from geniex_runtimes.contract import GenerationRequest, LoadedModel, PromptPiece
from geniex_runtimes.errors import ContextLengthError, GenerationError
from geniex_runtimes.llama_cpp.embedding import LlamaCppEmbedder
from geniex_runtimes.llama_cpp.runtime import LlamaCppRuntime
from geniex_runtimes.options import LoadOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved, turn

TEXTS = ["the cat sat on the mat", "paris is the capital of france", "A dog?", "the [SEP] dog"]
LONG = "the cat sat on the mat. " * 90  # more tokens than a first context takes

_JUDGE = """
import json, sys
from llama_cpp import Llama
asked = json.load(sys.stdin)
llama = Llama(
    asked["file"], embedding=True, pooling_type=asked["pooling"], n_ctx=1024, n_batch=1024,
    n_ubatch=1024, n_threads=1, n_threads_batch=1, n_seq_max=1, flash_attn=True,
    verbose=False,
)
vectors = [llama.embed(text, normalize=True, truncate=False) for text in asked["texts"]]
json.dump(vectors, sys.stdout)
"""


def judged(file: Path, pooling: int, texts: Sequence[str]) -> np.ndarray:
    """The same vectors by the package, in a process of its own: it sets llama.cpp's logging."""
    asked = json.dumps({"file": str(file), "pooling": pooling, "texts": texts})
    found = subprocess.run(
        [sys.executable, "-c", _JUDGE],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return np.array(json.loads(found.stdout))


def embedder(path: Path, **options: object) -> LlamaCppEmbedder:
    settings = {"threads": 1, "embedding": True} | options
    model = LlamaCppRuntime().load(resolved(path), LoadOptions(**settings))  # type: ignore[arg-type]
    assert isinstance(model, LlamaCppEmbedder)
    return model


@pytest.fixture(scope="module")
def bert(toys: Path) -> Path:
    return toys / "bert-mean.gguf"


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        pytest.param("bert-mean.gguf", 1, id="mean"),
        pytest.param("bert-cls.gguf", 2, id="first-token"),
        pytest.param("bert-silent.gguf", 1, id="file-does-not-say"),
        pytest.param("q35-mix.gguf", 1, id="recurrent"),
        pytest.param("", 1, id="causal"),
    ],
)
def test_numbers_are_those_of_the_package(
    toys: Path, tiny_chat: Path, name: str, pooling: int
) -> None:
    file = toys / name if name else tiny_chat
    texts = [*TEXTS, LONG] if name.startswith("bert") else TEXTS
    with embedder(file) as model:
        found = model.embed(texts)
        vectors = np.array(found.vectors)
        assert found.tokens == sum(len(model.tokenize([PromptPiece(text)])) for text in texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors, judged(file, pooling, texts), atol=1e-5)
    # not all the same: the comparison says something
    assert abs(vectors[0] @ vectors[1]) < 0.999


@pytest.mark.slow
def test_numbers_of_a_real_model(smollm2: Path) -> None:
    texts = [*TEXTS, "The quick brown fox jumps over the lazy dog.", LONG[:960]]
    with embedder(smollm2, context_length=1024) as model:
        vectors = np.array(model.embed(texts).vectors)
    np.testing.assert_allclose(vectors, judged(smollm2, 1, texts), atol=1e-5)


def test_what_the_model_says_of_itself(bert: Path, tiny_chat: Path) -> None:
    with embedder(bert, context_length=4096, slots=3) as model:
        loaded: LoadedModel = model
        info = loaded.info
        assert info.embedding and info.slots == 3 and not info.warnings
        assert info.context_length == info.training_context == 1024, "it has no more positions"
        assert info.vocab_size > 100 and info.chat_template is None
        assert model.tokenize([PromptPiece("cat")]) == [2, 5, 3]
        assert model.token_bytes(3) == b"[SEP]" and "cat" in model.detokenize([5])
        assert 3 not in model.tokenize([PromptPiece("[SEP]")])[1:-1]
    with embedder(tiny_chat) as model:
        assert ["not made for embeddings" in text for text in model.info.warnings] == [True]


def test_tokens_are_taken_as_they_are(bert: Path) -> None:
    with embedder(bert) as model:
        tokens = [model.tokenize([PromptPiece(text)]) for text in TEXTS]
        assert model.embed(tokens) == model.embed(TEXTS)
        assert model.embed([[2, 5]]) != model.embed([[2, 5, 3]])


def test_many_texts_come_in_order_and_as_each_alone(bert: Path) -> None:
    texts = [f"the dog sat on {number} mat{'s' * (number % 40)}" for number in range(50)] + [LONG]
    with embedder(bert) as model:
        together = np.array(model.embed(texts).vectors)
        alone = np.array([model.embed([text]).vectors[0] for text in texts])
        np.testing.assert_allclose(together, alone, atol=1e-6)
        assert model.embed([]).vectors == ()


def test_a_text_may_fill_the_context_and_not_more(bert: Path) -> None:
    with embedder(bert, context_length=600) as model:
        full = [2, *([5] * 598), 3]
        assert len(model.embed([[5], full, [5]]).vectors) == 3
        with pytest.raises(ContextLengthError) as caught:
            model.embed([[5], [*full, 3]])
        assert (caught.value.prompt_tokens, caught.value.context_length) == (601, 600)
        assert model.embed([full]).tokens == 600


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        pytest.param(["a", ""], "empty", id="empty-text"),
        pytest.param([[]], "empty", id="no-tokens"),
        pytest.param([[5, 99999]], "99999", id="unknown-token"),
        pytest.param([[-1]], "-1", id="negative-token"),
    ],
)
def test_what_cannot_be_embedded(bert: Path, texts: list[str], told: str) -> None:
    with embedder(bert) as model, pytest.raises(UsageError, match=told):
        model.embed(texts)


def test_each_is_for_what_it_was_loaded_for(bert: Path, tiny_chat: Path) -> None:
    with load(tiny_chat) as text, embedder(tiny_chat) as vectors:
        with pytest.raises(UsageError, match="answer in text"):
            text.embed(["hi"])
        with pytest.raises(UsageError, match="gives no text"):
            vectors.generate(GenerationRequest([5]))
        before = vectors.embed(["hi"])
        assert answer(text, turn("What is the capital of France?")).text.endswith("Paris.")
        assert vectors.embed(["hi"]) == before
    with embedder(bert, speculative=SpeculativeOptions(("ngram-simple",), require=True)) as model:
        assert model.info.speculation == ()


def test_a_reranker_is_refused_by_name(toys: Path) -> None:
    with pytest.raises(LoadError, match=r"bert-rank\.gguf` is a reranker"):
        embedder(toys / "bert-rank.gguf")


def test_a_file_that_is_not_known_is_tried_first(bert: Path, tmp_path: Path) -> None:
    with embedder(bert, data_dir=tmp_path) as model:
        assert model.embed(["a"]).tokens == 3
    assert '"passed": true' in (tmp_path / "trials.json").read_text()


def test_closed_says_so(bert: Path) -> None:
    model = embedder(bert)
    model.free_contexts()
    model.close()
    model.close()
    for use in (
        lambda: model.embed(["x"]),
        lambda: model.tokenize([PromptPiece("x")]),
        lambda: model.detokenize([5]),
    ):
        with pytest.raises(GenerationError, match="closed"):
            use()


def test_from_many_threads(bert: Path) -> None:
    with embedder(bert) as model:
        expected = [model.embed([text]) for text in TEXTS]
        with ThreadPoolExecutor(4) as pool:
            for _ in range(5):
                assert list(pool.map(lambda text: model.embed([text]), TEXTS)) == expected


def test_weights_that_give_no_numbers_are_refused(bert: Path, tmp_path: Path) -> None:
    data = bert.read_bytes()
    broken = tmp_path / "nan.gguf"
    # the last of its weights are 32-bit floats
    broken.write_bytes(data[:-256] + 64 * struct.pack("<f", float("nan")))
    with pytest.raises(LoadError, match="NaN") as caught:
        embedder(broken)
    assert "download it again" in str(caught.value.hint)
