"""Next-token heads in the target's own file."""

from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp.speculative.embedded import ANY_HEADS, ONE_HEAD
from tests.geniex_runtimes.llama_cpp.speculative.pair.files import (
    GONE,
    HEAD_TENSORS,
    Entries,
    headed_file,
)
from tests.geniex_runtimes.llama_cpp.speculative.pair.verdict import mode, refusal


@pytest.mark.parametrize("architecture", sorted(ONE_HEAD))
def test_one_head(tmp_path: Path, architecture: str) -> None:
    extra = [f"blk.4.{part}.weight" for part in ONE_HEAD[architecture]]
    mla = {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
    path = headed_file(tmp_path, architecture, mla, [*HEAD_TENSORS, *extra])
    assert mode(path) == "own"
    for left_out in [*HEAD_TENSORS, *extra]:
        there = [name for name in [*HEAD_TENSORS, *extra] if name != left_out]
        assert f"`{left_out}` is missing" in refusal(
            headed_file(tmp_path, architecture, mla, there)
        )


@pytest.mark.parametrize("architecture", sorted(ANY_HEADS))
@pytest.mark.parametrize(("count", "expected"), [(1, "own"), (3, "chained")])
def test_chained_heads(tmp_path: Path, architecture: str, count: int, expected: str) -> None:
    parts = ["nextn.eh_proj", "nextn.enorm", "nextn.hnorm", *ANY_HEADS[architecture]]
    names = [f"blk.{5 - 1 + head}.{part}.weight" for head in range(count) for part in parts]
    changes = {"block_count": 4 + count, "nextn_predict_layers": count}
    assert mode(headed_file(tmp_path, architecture, changes, names)) == expected
    message = refusal(headed_file(tmp_path, architecture, changes, names[:-1]))
    assert f"`{names[-1]}` is missing" in message


@pytest.mark.parametrize(
    "architecture",
    ["exaone4", "exaone-moe", "glm4", "bailingmoe2", "dots3note", "glm5-next", "llama", "qwen3"],
)
def test_heads_that_nothing_runs(tmp_path: Path, architecture: str) -> None:
    message = refusal(headed_file(tmp_path, architecture))
    assert message == (
        "`headed.gguf` declares next-token heads (1), and llama.cpp cannot run those of "
        f"architecture {architecture}"
    )


REFUSED_HEADS = [
    pytest.param("llama", {"nextn_predict_layers": 0}, "(llama) has no next-token", id="none"),
    pytest.param("qwen35", {"nextn_predict_layers": GONE}, "(qwen35) has no", id="not-declared"),
    pytest.param("qwen35", {"nextn_predict_layers": 2}, "2 next-token heads, and", id="two"),
    pytest.param("mimo2", {"nextn_predict_layers": 5}, "5 next-token heads in 5", id="all-heads"),
    pytest.param("qwen35", {"nextn_predict_layers": 9}, "9 next-token heads in 5", id="too-many"),
    pytest.param("deepseek2", {}, "`attention.key_length_mla` is missing", id="no-mla"),
    pytest.param(
        "deepseek2",
        {
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
            "attention.temperature_scale": 0.5,
        },
        "cannot scale its attention (by 0.5)",
        id="attention-scale",
    ),
    pytest.param(
        "deepseek2",
        {
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
            "leading_dense_block_count": 5,
        },
        "block 4 is one of 5 dense ones",
        id="dense-head",
    ),
    pytest.param(
        "deepseek4", {"hash_layer_count": 5}, "block 4 is one of 5 such", id="hash-routed-head"
    ),
]


@pytest.mark.parametrize(("architecture", "changes", "says"), REFUSED_HEADS)
def test_heads_that_do_not_do(
    tmp_path: Path, architecture: str, changes: Entries, says: str
) -> None:
    assert says in refusal(headed_file(tmp_path, architecture, changes))
