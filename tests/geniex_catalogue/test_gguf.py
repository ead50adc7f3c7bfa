"""What a header says about a model; the `gguf` package is the judge."""

import hashlib
from pathlib import Path
from typing import Any

import gguf
import pytest

import geniex_catalogue
from geniex_catalogue.ggml_types import GGML_TYPES
from geniex_catalogue.gguf import ArrayInfo, GGUFHeader, join_shards, read_header, tokens_digest
from tests.ggufwriter import build, entry, model, parsed, string, tensor

BUILTIN = Path(geniex_catalogue.__file__).parent / "builtin"
TARGET = BUILTIN / "tiny-chat-Q8_0.gguf"
DRAFT = BUILTIN / "tiny-chat-draft-Q8_0.gguf"


@pytest.mark.parametrize("path", [TARGET, DRAFT], ids=lambda path: path.stem)
def test_agrees_with_the_gguf_package(path: Path) -> None:
    header, judge = read_header(path), gguf.GGUFReader(path)
    assert [t.name for t in header.tensors] == [t.name for t in judge.tensors]
    assert [t.size for t in header.tensors] == [int(t.n_bytes) for t in judge.tensors]
    assert [t.shape for t in header.tensors] == [tuple(map(int, t.shape)) for t in judge.tensors]
    for key, value in header.metadata.items():
        known: Any = judge.fields[key].contents()
        if isinstance(value, ArrayInfo):
            assert value.length == len(known)
        else:
            assert list(value) == known if isinstance(value, tuple) else value == known
    assert header.weights_bytes == sum(int(t.n_bytes) for t in judge.tensors)
    assert header.parameter_count == sum(int(t.n_elements) for t in judge.tensors)


def test_facts_of_the_builtin_pair() -> None:
    target, draft = read_header(TARGET), read_header(DRAFT)
    assert (target.role, draft.role) == ("model", "draft")
    assert (target.architecture, target.file_type, target.block_count) == ("gemma4", 7, 4)
    assert target.context_length == 4096
    assert target.chat_template is not None
    assert "<" in target.chat_template
    assert (target.split_count, target.split_no, target.has_heads) == (1, 0, False)
    # 2 sliding layers of 2 heads of 64, 2 full ones of 1 head of 128; K and V; f16
    assert target.kv_bytes_per_token() == (2 * 2 * 128 + 2 * 256) * 2
    assert draft.kv_bytes_per_token() == 0
    assert target.file_size == TARGET.stat().st_size


def test_type_sizes_agree_with_the_gguf_package() -> None:
    for kind, (values, size) in gguf.constants.GGML_QUANT_SIZES.items():
        assert GGML_TYPES[int(kind)] == (kind.name, values, size)


def test_digest_of_tokens_tells_vocabularies_apart(tmp_path: Path) -> None:
    tokens = read_header(TARGET).metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, ArrayInfo)
    span = TARGET.read_bytes()[tokens.start : tokens.end]
    assert tokens_digest(TARGET, read_header(TARGET)) == hashlib.sha256(span).hexdigest()
    assert tokens_digest(DRAFT, read_header(DRAFT)) == tokens_digest(TARGET, read_header(TARGET))
    other = tmp_path / "other.gguf"
    other.write_bytes(build([entry("tokenizer.ggml.tokens", ["a", "b"])]))
    assert (
        tokens_digest(other, read_header(other))
        == hashlib.sha256(string("a") + string("b")).hexdigest()
    )
    other.write_bytes(build([entry("general.name", "no vocabulary")]))
    assert tokens_digest(other, read_header(other)) is None


ROLES: dict[str, tuple[GGUFHeader, str]] = {
    "model": (model({"general.architecture": "llama"}, "token_embd.weight"), "model"),
    "projector by type": (model({"general.type": "mmproj"}, "a"), "projector"),
    "projector by architecture": (model({"general.architecture": "clip"}, "a"), "projector"),
    "projector by keys": (model({"clip.has_vision_encoder": 1}, "v.patch"), "projector"),
    "model with vision keys": (
        model({"general.architecture": "llama", "clip.x": 1}, "token_embd.weight"),
        "model",
    ),
    "assistant": (model({"general.architecture": "gemma4-assistant"}, "a"), "draft"),
    "any assistant": (model({"general.architecture": "nova9-assistant"}, "a"), "draft"),
    "eagle3": (model({"general.architecture": "eagle3"}, "a"), "draft"),
    "dflash": (model({"general.architecture": "dflash"}, "a"), "draft"),
    "heads without a body": (
        model(
            {"general.architecture": "qwen35", "qwen35.nextn_predict_layers": 1},
            "token_embd.weight",
            "blk.4.nextn.eh_proj.weight",
        ),
        "draft",
    ),
    "heads with a body": (
        model(
            {"general.architecture": "qwen35", "qwen35.nextn_predict_layers": 1},
            "blk.0.attn_q.weight",
            "blk.4.nextn.eh_proj.weight",
        ),
        "model",
    ),
    "bert": (model({"general.architecture": "nomic-bert"}, "a"), "embedding"),
    "pooling": (
        model({"general.architecture": "qwen3", "qwen3.pooling_type": 3}, "a"),
        "embedding",
    ),
    "no pooling": (model({"general.architecture": "qwen3", "qwen3.pooling_type": 0}, "a"), "model"),
    "lora": (model({"general.type": "adapter", "general.architecture": "llama"}, "a"), "adapter"),
    "imatrix": (model({"general.type": "imatrix"}, "a"), "imatrix"),
    "vocabulary": (model({"general.architecture": "llama"}), "vocabulary"),
    "first shard without tensors": (
        model({"general.architecture": "llama", "split.count": 2}),
        "model",
    ),
    "nothing said": (model({"general.name": "x"}, "a"), "unknown"),
}


@pytest.mark.parametrize(("header", "role"), ROLES.values(), ids=ROLES)
def test_role(header: GGUFHeader, role: str) -> None:
    assert header.role == role


def test_heads_need_number_and_tensor() -> None:
    keys = {"general.architecture": "m", "m.block_count": 7, "m.nextn_predict_layers": 3}
    assert model(keys, "blk.4.nextn.eh_proj.weight").has_heads
    assert not model(keys, "blk.6.nextn.eh_proj.weight").has_heads
    assert not model({**keys, "m.nextn_predict_layers": 0}, "blk.7.nextn.eh_proj.weight").has_heads


PLAIN = {
    "m.block_count": 4,
    "m.embedding_length": 64,
    "m.attention.head_count": 4,
    "m.attention.head_count_kv": 2,
}
# bytes per token of f16: heads x (K + V) x 2, over the layers that count
KV: dict[str, tuple[dict[str, object], int, int]] = {
    "lengths from the embedding": ({}, 0, 4 * 2 * 32 * 2),
    "own lengths": ({"m.attention.key_length": 24, "m.attention.value_length": 8}, 0, 4 * 2 * 64),
    "heads per layer": ({"m.attention.head_count_kv": [2, 0, 1, 0]}, 0, 3 * 32 * 2),
    "shared cache": ({"m.attention.shared_kv_layers": 3}, 0, 1 * 2 * 32 * 2),
    "next-token blocks": ({"m.nextn_predict_layers": 1}, 0, 3 * 2 * 32 * 2),
    "hybrid": ({"m.full_attention_interval": 2}, 0, 2 * 2 * 32 * 2),
    "window": (
        {"m.attention.sliding_window": 512, "m.attention.sliding_window_pattern": 2},
        4096,
        (2 + 2 // 4 * 0) * 2 * 32 * 2 + 2 * 2 * 32 * 2 // 4,
    ),
    "window without a pattern": ({"m.attention.sliding_window": 512}, 4096, 4 * 2 * 32 * 2),
    "nothing known": ({"m.attention.head_count": 0, "m.attention.head_count_kv": 0}, 0, 0),
    "heads that are text": ({"m.attention.head_count_kv": "two"}, 0, 4 * 4 * 32 * 2),
    "more layers than fit": ({"m.block_count": 0xFFFFFFFF}, 0, 4096 * 2 * 32 * 2),
}


@pytest.mark.parametrize(("changes", "context", "expected"), KV.values(), ids=KV)
def test_kv_bytes_per_token(changes: dict[str, object], context: int, expected: int) -> None:
    header = model({"general.architecture": "m", **PLAIN, **changes}, "a")
    assert header.kv_bytes_per_token(context) == expected


@pytest.mark.parametrize(
    ("keys", "recurrent"),
    [
        pytest.param({"general.architecture": "mamba2"}, True, id="mamba"),
        pytest.param({"general.architecture": "qwen35", "qwen35.ssm.state_size": 4}, True, id="q"),
        pytest.param({"general.architecture": "llama", "llama.block_count": 2}, False, id="llama"),
    ],
)
def test_recurrent(keys: dict[str, object], recurrent: bool) -> None:
    assert model(keys, "a").recurrent is recurrent


SSM: dict[str, object] = {
    "m.ssm.state_size": 16,
    "m.ssm.inner_size": 128,
    "m.ssm.conv_kernel": 4,
    "m.ssm.group_count": 2,
}
ONE = 4 * (128 * 16 + 3 * (128 + 2 * 2 * 16))  # bytes of a layer's state
# over the layers that have a state
STATES: dict[str, tuple[dict[str, object], int]] = {
    "none": ({}, 0),
    "every second layer attends": ({**SSM, "m.full_attention_interval": 2}, 2 * ONE),
    "some layers attend": ({**SSM, "m.attention.head_count_kv": [0, 2, 0, 0]}, 3 * ONE),
    "all layers attend, too": (SSM, 4 * ONE),
    "next-token heads have none": ({**SSM, "m.nextn_predict_layers": 1}, 3 * ONE),
    "short convolutions": (
        {"m.shortconv.l_cache": 3, "m.attention.head_count_kv": [0, 2, 0, 0]},
        3 * 4 * 2 * 64,
    ),
    "layers without attention": ({"m.attention.head_count_kv": [0, 2, 0, 0]}, 0),
    "rwkv": (
        {"general.architecture": "rwkv7", "rwkv7.wkv.head_size": 32}
        | {"rwkv7.block_count": 4, "rwkv7.embedding_length": 64},
        4 * 4 * 64 * (32 + 2),
    ),
    "more layers than fit": (
        {**SSM, "m.block_count": 0xFFFFFFFF, "m.attention.head_count_kv": 0},
        4096 * ONE,
    ),
}


@pytest.mark.parametrize(("changes", "expected"), STATES.values(), ids=STATES)
def test_state_bytes(changes: dict[str, object], expected: int) -> None:
    header = model({"general.architecture": "m", **PLAIN, **changes}, "a")
    assert header.state_bytes == expected


def test_unknown_tensor_types_are_noted_not_refused() -> None:
    infos = [tensor("a", [3], 200, 0), tensor("b", [8], 0, 96)]
    header = parsed(build([], infos, 128))
    assert header.unknown_types == ("type 200",)
    assert header.weights_bytes == 32


def test_shards_join_into_one_header() -> None:
    first = model({"general.architecture": "m", "split.count": 2}, "a")
    second = model({"split.no": 1, "split.count": 2}, "b", "c")
    joined = join_shards([first, second])
    assert [t.name for t in joined.tensors] == ["a", "b", "c"]
    assert joined.architecture == "m"
    assert joined.file_size == (first.file_size or 0) + (second.file_size or 0)
