"""The toys are what they are called: they load and answer, and the bad ones are bad in one way."""

from pathlib import Path

import pytest

from geniex_catalogue.errors import LoadError
from geniex_catalogue.gguf import read_header, tokens_digest
from tests.geniex_runtimes.llama_cpp.answers import answer, load
from tests.toys.maker import make

TARGETS = [
    "g4-markov-target",
    "g4-random-target",
    "g4-always-target",
    "g4-flip-target",
    "q35-mix",
    "mimo-mix",
    "mimo-hollow",
    "exaone4-heads",
]


@pytest.mark.parametrize("name", TARGETS)
def test_a_toy_answers(toys: Path, name: str) -> None:
    with load(toys / f"{name}.gguf") as model:
        result = answer(model, [2, 300, 301], max_tokens=24, logprobs=0)
    tokens = [entry.token for entry in result.logprobs]
    # text tokens only, and no loop over a few of them
    assert len(tokens) == 24
    assert all(token >= 260 for token in tokens)
    assert len(set(tokens)) > 10


def test_a_draft_does_not_run_alone(toys: Path) -> None:
    with pytest.raises(LoadError, match="requires ctx_other"):
        load(toys / "g4-markov-draft.gguf")


@pytest.mark.parametrize("name", ["q35-mix", "mimo-mix", "exaone4-heads"])
def test_heads_are_there(toys: Path, name: str) -> None:
    assert read_header(toys / f"{name}.gguf").has_heads


@pytest.mark.parametrize("name", ["q35-hollow", "mimo-hollow"])
def test_hollow_heads_are_declared_and_not_there(toys: Path, name: str) -> None:
    header = read_header(toys / f"{name}.gguf")
    assert header.nextn_layers > 0
    assert not header.has_heads


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("out", {"embedding_length_out"}),
        ("head", {"attention.key_length", "attention.value_length", "rope.dimension_count"}),
        ("window", {"attention.sliding_window"}),
        ("kv-heads", {"attention.head_count_kv"}),
        ("vocab", set()),
        ("size", set()),
    ],
)
def test_a_bad_draft_differs_in_one_way(toys: Path, name: str, differs: set[str]) -> None:
    paths = [toys / "g4-markov-draft.gguf", toys / f"g4-bad-{name}-draft.gguf"]
    good, bad = (read_header(path) for path in paths)
    own = {key for key in good.metadata if key.startswith("gemma4-assistant.")}
    found = {key for key in own if good.metadata[key] != bad.metadata[key]}
    assert {key.removeprefix("gemma4-assistant.") for key in found} == differs
    same_tokens = tokens_digest(paths[0], good) == tokens_digest(paths[1], bad)
    assert same_tokens == bool(differs)


def test_the_same_files_each_time(toys: Path, tmp_path: Path) -> None:
    make(tmp_path / "again")
    for path in toys.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name
