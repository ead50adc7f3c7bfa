"""Drafts that share the target's cells: what fits, and a true reason for all that does not."""

from pathlib import Path

import pytest

from geniex_catalogue.errors import ModelFileError
from geniex_catalogue.gguf import read_header
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp.speculative.pair import check
from tests.geniex_runtimes.llama_cpp.speculative.pair.files import (
    GONE,
    TARGET,
    TOKENS,
    Entries,
    draft_file,
    headed_file,
    target_file,
    write,
)
from tests.geniex_runtimes.llama_cpp.speculative.pair.verdict import mode, refusal


def test_a_pair_that_fits(tmp_path: Path) -> None:
    assert mode(target_file(tmp_path), draft_file(tmp_path)) == "shared"


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        pytest.param(
            {"attention.head_count_kv": 2}, {"attention.head_count_kv": 2}, id="one-number"
        ),
        pytest.param(
            {"attention.head_count_kv": GONE}, {"attention.head_count_kv": GONE}, id="no-kv-heads"
        ),
        pytest.param(
            {"attention.shared_kv_layers": 2, "attention.head_count_kv": [2, 1, 7, 7]},
            {},
            id="cells-of-earlier-layers",
        ),
        pytest.param(
            {"attention.key_length": GONE, "attention.value_length": GONE},
            {"attention.key_length": 24, "attention.value_length": 24},
            id="sizes-by-default",
        ),
        pytest.param(
            {},
            {
                "block_count": 4,
                "nextn_predict_layers": 4,
                "attention.head_count_kv": [2, 2, 2, 1],
                "attention.sliding_window_pattern": [True, True, True, False],
            },
            id="four-layers",
        ),
    ],
)
def test_pairs_that_fit_otherwise(tmp_path: Path, target: Entries, draft: Entries) -> None:
    assert mode(target_file(tmp_path, target), draft_file(tmp_path, draft)) == "shared"


REFUSED_PAIRS = [
    pytest.param({}, {"embedding_length_out": 128}, ["128 values", "has 96"], id="hidden-size"),
    pytest.param({}, {"embedding_length_out": GONE}, ["of 0 values"], id="no-hidden-size"),
    pytest.param({"embedding_length": 64}, {}, ["96 values", "has 64"], id="target-hidden-size"),
    pytest.param({}, {"embedding_length": 96}, ["own hidden size", "96"], id="draft-as-wide"),
    pytest.param({}, {"nextn_predict_layers": 1}, ["2 blocks", "declares 1"], id="layers-declared"),
    pytest.param({}, {"nextn_predict_layers": GONE}, ["2 blocks", "declares 0"], id="no-layers"),
    pytest.param(
        {"attention.sliding_window_pattern": [True, False, False, True]},
        {},
        ["full and sliding"],
        id="target-ends-sliding",
    ),
    pytest.param(
        {"attention.sliding_window_pattern": [True, True, True, True]},
        {},
        ["sliding and sliding"],
        id="target-all-sliding",
    ),
    pytest.param(
        {"attention.sliding_window_pattern": [True, True, False, False]},
        {},
        ["full and full"],
        id="target-without-sliding-end",
    ),
    pytest.param(
        {"attention.sliding_window_pattern": GONE}, {}, ["full and full"], id="target-no-pattern"
    ),
    pytest.param({"block_count": 1}, {}, ["they are sliding"], id="target-of-one-layer"),
    pytest.param(
        {},
        {"attention.sliding_window_pattern": [False, False]},
        ["none of the 2 layers"],
        id="draft-without-window",
    ),
    pytest.param(
        {}, {"attention.sliding_window": 64}, ["sliding windows", "has 64", "has 128"], id="window"
    ),
    pytest.param(
        {}, {"attention.sliding_window": GONE}, ["sliding windows", "none"], id="no-window"
    ),
    pytest.param(
        {}, {"attention.key_length": 32}, ["key sizes of full", "has 32", "has 64"], id="key-size"
    ),
    pytest.param(
        {}, {"attention.value_length": 32}, ["value sizes of full", "has 32"], id="value-size"
    ),
    pytest.param(
        {}, {"attention.key_length_swa": 64}, ["key sizes of sliding", "has 64"], id="key-size-swa"
    ),
    pytest.param(
        {},
        {"attention.value_length_swa": 64},
        ["value sizes of sliding", "has 64"],
        id="value-size-swa",
    ),
    pytest.param(
        {}, {"attention.key_length_swa": GONE}, ["key sizes of sliding", "none"], id="no-key-size"
    ),
    pytest.param(
        {},
        {"attention.head_count_kv": [1, 1]},
        ["KV heads of sliding layers", "has 1", "has 2"],
        id="kv-heads-sliding",
    ),
    pytest.param(
        {},
        {"attention.head_count_kv": [2, 2]},
        ["KV heads of full layers", "has 2", "has 1"],
        id="kv-heads-full",
    ),
    pytest.param(
        {"attention.head_count_kv": [2, 1, 4, 1]}, {}, ["has 2", "has 4"], id="target-kv-heads"
    ),
    pytest.param(
        {"attention.shared_kv_layers": 2, "attention.head_count_kv": [4, 1, 2, 1]},
        {},
        ["has 2", "has 4"],
        id="kv-heads-of-shared-cells",
    ),
    pytest.param({}, {"tokenizer.ggml.model": "llama"}, ["tokenizers", "llama"], id="tokenizer"),
    pytest.param({}, {"tokenizer.ggml.pre": "qwen2"}, ["pre-tokenizers", "qwen2"], id="pre"),
    pytest.param({}, {"tokenizer.ggml.pre": GONE}, ["pre-tokenizers", "none"], id="no-pre"),
    pytest.param(
        {}, {"tokenizer.ggml.tokens": TOKENS[:-1]}, ["299 tokens", "300 tokens"], id="one-fewer"
    ),
    pytest.param(
        {},
        {"tokenizer.ggml.tokens": [*TOKENS[:-1], "other"]},
        ["'other' as token 299", "'t296'"],
        id="last-token",
    ),
    pytest.param(
        {},
        {"tokenizer.ggml.tokens": [TOKENS[1], TOKENS[0], *TOKENS[2:]]},
        ["'<eos>' as token 0", "'<pad>'"],
        id="permuted",
    ),
    pytest.param(
        {},
        {"tokenizer.ggml.tokens": [*TOKENS[:9], TOKENS[9] + TOKENS[10], "", *TOKENS[11:]]},
        ["'t6t7' as token 9", "'t6'"],
        id="other-borders",
    ),
    pytest.param({}, {"tokenizer.ggml.tokens": GONE}, ["no vocabulary"], id="no-vocabulary"),
    pytest.param({"tokenizer.ggml.tokens": GONE}, {}, ["no vocabulary"], id="target-no-vocabulary"),
    pytest.param({}, {"general.type": "mmproj"}, ["projector", "not a draft"], id="projector"),
    pytest.param({}, {"general.type": "adapter"}, ["LoRA", "not a draft"], id="adapter"),
    pytest.param({}, {"general.type": "imatrix"}, ["importance matrix"], id="imatrix"),
    pytest.param({"general.type": "adapter"}, {}, ["nothing to speed up"], id="target-adapter"),
    pytest.param({"pooling_type": 1}, {}, ["an embedding model"], id="target-embeds"),
]


@pytest.mark.parametrize(("target", "draft", "says"), REFUSED_PAIRS)
def test_a_pair_that_does_not_fit(
    tmp_path: Path, target: Entries, draft: Entries, says: list[str]
) -> None:
    message = refusal(target_file(tmp_path, target), draft_file(tmp_path, draft))
    for part in says:
        assert part in message


@pytest.mark.parametrize("architecture", ["gemma3", "llama", "qwen35", "gemma4-assistants"])
def test_drafts_of_other_architectures(tmp_path: Path, architecture: str) -> None:
    draft = write(tmp_path / "draft.gguf", architecture, TARGET)
    message = refusal(target_file(tmp_path), draft)
    assert (
        f"needs a draft of architecture gemma4-assistant, `draft.gguf` is {architecture}" in message
    )


@pytest.mark.parametrize("architecture", ["gemma3", "gemma3n", "llama", "qwen35", "gemma2"])
def test_targets_of_other_architectures(tmp_path: Path, architecture: str) -> None:
    target = write(tmp_path / "target.gguf", architecture, TARGET)
    message = refusal(target, draft_file(tmp_path))
    assert f"`target.gguf` ({architecture}) takes no draft for MTP" in message


def test_a_draft_for_a_target_with_heads(tmp_path: Path) -> None:
    with pytest.raises(SpeculativeError) as caught:
        mode(headed_file(tmp_path, "qwen35"), draft_file(tmp_path))
    assert caught.value.hint == "leave `--draft-model` out to use its own heads"


def test_the_draft_is_the_target(tmp_path: Path) -> None:
    target = target_file(tmp_path)
    assert "the draft `target.gguf` is the target itself" in refusal(target, target)
    other = tmp_path / "link.gguf"
    other.hardlink_to(target)
    assert "the draft `link.gguf` is the target itself" in refusal(target, other)


def test_a_draft_alone(tmp_path: Path) -> None:
    draft = draft_file(tmp_path)
    assert "`draft.gguf` (gemma4-assistant) is itself a draft" in refusal(draft)
    assert "is itself a draft" in refusal(draft, target_file(tmp_path))


def test_a_draft_is_missing(tmp_path: Path) -> None:
    message = refusal(target_file(tmp_path))
    assert "`target.gguf` (gemma4) needs a draft of architecture gemma4-assistant" in message


def test_a_file_that_is_cut_short_afterwards(tmp_path: Path) -> None:
    target, draft = target_file(tmp_path), draft_file(tmp_path)
    header = read_header(draft)
    draft.write_bytes(draft.read_bytes()[:600])
    with pytest.raises(SpeculativeError, match="is cut short"):
        check(read_header(target), target, header, draft)
    draft.unlink()
    with pytest.raises(SpeculativeError, match="cannot be read: No such file"):
        check(read_header(target), target, header, draft)


def test_a_target_that_is_gone_is_no_fault_of_the_draft(tmp_path: Path) -> None:
    target, draft = target_file(tmp_path), draft_file(tmp_path)
    headers = read_header(target), read_header(draft)
    target.unlink()
    with pytest.raises(ModelFileError, match=r"`target\.gguf` is missing") as caught:
        check(headers[0], target, headers[1], draft)
    assert caught.value.hint == "pull it again"
    target.mkdir()
    with pytest.raises(ModelFileError, match=r"`target\.gguf` cannot be read"):
        check(headers[0], target, headers[1], draft)
