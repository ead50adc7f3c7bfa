"""Headers of models that fit together, to be changed in one point; written as small GGUF files."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.ggufwriter import build, entry, tensor

Entries = Mapping[str, object]

TOKENS = ["<pad>", "<eos>", "<bos>", *(f"t{number}" for number in range(297))]
TOKENIZER: Entries = {
    "tokenizer.ggml.model": "gemma4",
    "tokenizer.ggml.pre": "gemma4",
    "tokenizer.ggml.tokens": TOKENS,
}
_CELLS: Entries = {
    "attention.head_count": 4,
    "attention.key_length": 64,
    "attention.value_length": 64,
    "attention.key_length_swa": 32,
    "attention.value_length_swa": 32,
    "attention.sliding_window": 128,
}
TARGET: Entries = {
    "block_count": 4,
    "embedding_length": 96,
    "attention.head_count_kv": [2, 1, 2, 1],
    "attention.sliding_window_pattern": [True, False, True, False],
    **_CELLS,
}
DRAFT: Entries = {
    "block_count": 2,
    "embedding_length": 48,
    "embedding_length_out": 96,
    "nextn_predict_layers": 2,
    "attention.head_count_kv": [2, 1],
    "attention.sliding_window_pattern": [True, False],
    **_CELLS,
}
HEADED: Entries = {"block_count": 5, "embedding_length": 96, "nextn_predict_layers": 1}
HEAD_TENSORS = tuple(f"blk.4.nextn.{part}.weight" for part in ("eh_proj", "enorm", "hnorm"))
GONE = object()  # as a changed value: the key is left out


def write(
    path: Path,
    architecture: str,
    own: Entries,
    changes: Entries | None = None,
    tensors: Iterable[str] = (),
) -> Path:
    """A file with the architecture's `own` keys; `changes` with a dot of its own are full names."""
    entries: dict[str, object] = {"general.architecture": architecture, **TOKENIZER}
    keys = {f"{architecture}.{key}": value for key, value in own.items()}
    for key, value in (changes or {}).items():
        whole = key.startswith(("tokenizer.", "general.", "adapter."))
        keys[key if whole else f"{architecture}.{key}"] = value
    entries |= keys
    names = ["token_embd.weight", "blk.0.attn_q.weight", *tensors]
    infos = [tensor(name, [8], 0, 32 * at) for at, name in enumerate(names)]
    listed = [_entry(key, value) for key, value in entries.items() if value is not GONE]
    path.write_bytes(build(listed, infos, 32 * len(infos)))
    return path


def _entry(key: str, value: object) -> bytes:
    first = value[0] if isinstance(value, list) else value
    kind = "bool" if isinstance(first, bool) else "f32" if isinstance(first, float) else "u32"
    return entry(key, value, kind)


def target_file(folder: Path, changes: Entries | None = None) -> Path:
    """A gemma4 target."""
    return write(folder / "target.gguf", "gemma4", TARGET, changes)


def draft_file(folder: Path, changes: Entries | None = None) -> Path:
    """The gemma4-assistant draft of that target."""
    return write(folder / "draft.gguf", "gemma4-assistant", DRAFT, changes)


def headed_file(
    folder: Path,
    architecture: str,
    changes: Entries | None = None,
    tensors: Iterable[str] = HEAD_TENSORS,
) -> Path:
    """A model with one next-token head in block 4."""
    return write(folder / "headed.gguf", architecture, HEADED, changes, tensors)
