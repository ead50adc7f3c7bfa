"""Pairs that fit are told what they are; all others are refused with a true reason in one line."""

import shutil
from pathlib import Path

import pytest

from geniex_catalogue.errors import SpeculativeError
from geniex_catalogue.gguf import read_header
from geniex_runtimes.llama_cpp.speculative.embedded import ANY_HEADS, ONE_HEAD
from geniex_runtimes.llama_cpp.speculative.pair import Mode, check, check_simple
from tests.geniex_runtimes.llama_cpp.speculative.pairs import (
    GONE,
    HEAD_TENSORS,
    TARGET,
    TOKENS,
    Entries,
    draft_file,
    headed_file,
    target_file,
    write,
)


def mode(target: Path, draft: Path | None = None) -> Mode:
    header = read_header(draft) if draft is not None else None
    return check(read_header(target), target, header, draft)


def refusal(target: Path, draft: Path | None = None) -> str:
    """The reason, which is one line."""
    with pytest.raises(SpeculativeError) as caught:
        mode(target, draft)
    assert "\n" not in caught.value.message
    return caught.value.message


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


def test_a_file_that_is_cut_short_afterwards(tmp_path: Path) -> None:
    target, draft = target_file(tmp_path), draft_file(tmp_path)
    header = read_header(draft)
    draft.write_bytes(draft.read_bytes()[:600])
    with pytest.raises(SpeculativeError, match="is cut short"):
        check(read_header(target), target, header, draft)
    draft.unlink()
    with pytest.raises(SpeculativeError, match="cannot be read: No such file"):
        check(read_header(target), target, header, draft)


def test_the_built_in_pair(tiny_chat: Path, tiny_chat_draft: Path, tmp_path: Path) -> None:
    assert mode(tiny_chat, tiny_chat_draft) == "shared"
    # two tokens of the target swap their texts: what is called a token is no longer the draft's
    data = tiny_chat.read_bytes()
    first, second = (len(text).to_bytes(8, "little") + text for text in (b"!", b'"'))
    changed = data.replace(first + second, second + first, 1)
    assert changed != data
    path = tmp_path / "permuted.gguf"
    path.write_bytes(changed)
    assert "`permuted.gguf` has '\"'" in refusal(path, tiny_chat_draft)


@pytest.mark.parametrize(
    ("target", "draft", "expected"),
    [
        ("g4-markov-target", "g4-markov-draft", "shared"),
        ("g4-random-target", "g4-random-draft", "shared"),
        ("g4-always-target", "g4-always-draft", "shared"),
        ("g4-flip-target", "g4-flip-draft", "shared"),
        ("q35-mix", None, "own"),
        ("mimo-mix", None, "chained"),
    ],
)
def test_toys_that_fit(toys: Path, target: str, draft: str | None, expected: str) -> None:
    assert mode(toys / f"{target}.gguf", toys / f"{draft}.gguf" if draft else None) == expected


@pytest.mark.parametrize(
    ("target", "draft", "says"),
    [
        ("g4-markov-target", "g4-bad-out-draft", "of 160 values, `g4-markov-target.gguf` has 128"),
        ("g4-markov-target", "g4-bad-head-draft", "has 32, `g4-markov-target.gguf` has 64"),
        ("g4-markov-target", "g4-bad-window-draft", "has 32, `g4-markov-target.gguf` has 64"),
        ("g4-markov-target", "g4-bad-kv-heads-draft", "has 2, `g4-markov-target.gguf` has 1"),
        ("g4-markov-target", "g4-bad-vocab-draft", "has 'other' as token 300"),
        ("g4-markov-target", "g4-bad-size-draft", "has 544 tokens"),
        ("g4-markov-target", "g4-flip-draft", "has 1536 tokens"),
        ("g4-markov-target", "g4-markov-target", "is the target itself"),
        ("g4-markov-target", "q35-mix", "`q35-mix.gguf` is qwen35"),
        ("q35-mix", "g4-markov-draft", "takes no draft for MTP"),
        ("q35-hollow", None, "`blk.4.nextn.eh_proj.weight` is missing"),
        ("mimo-hollow", None, "`blk.4.nextn.eh_proj.weight` is missing"),
        ("exaone4-heads", None, "cannot run those of architecture exaone4"),
        ("g4-markov-draft", None, "is itself a draft"),
    ],
)
def test_toys_that_do_not_fit(toys: Path, target: str, draft: str | None, says: str) -> None:
    assert says in refusal(toys / f"{target}.gguf", toys / f"{draft}.gguf" if draft else None)


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
