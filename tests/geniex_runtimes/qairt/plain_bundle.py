"""A bundle of text alone: its context binaries are some bytes, which no reader looks into."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

CONFIG: Json = {
    "dialog": {
        "version": 1,
        "type": "basic",
        "context": {"version": 1, "size": 64, "n-vocab": 6, "bos-token": 0, "eos-token": [1, 3]},
        "sampler": {"version": 1, "seed": 42, "temp": 0.8, "top-k": 40, "top-p": 0.95},
        "tokenizer": {"version": 1, "path": "tokenizer.json"},
        "engine": {
            "version": 1,
            "backend": {
                "version": 1,
                "type": "QnnHtp",
                "QnnHtp": {"version": 1},
                "extensions": "htp.json",
            },
            "model": {
                "version": 1,
                "type": "binary",
                "binary": {"version": 1, "ctx-bins": ["b.bin", "a.bin"]},
            },
        },
    }
}
METADATA: Json = {
    "model_id": "plain",
    "precision": "w4a16",
    "chipset_attributes": {
        "name": "qualcomm-snapdragon-x-elite",
        "htp_version": 73,
        "soc_model": 60,
    },
    "tool_versions": {"qairt": "2.45.0.260326154327"},
    "model_files": {
        "prompt_ar128_cl4096_1_of_2": {"inputs": {}, "outputs": {}},
        "ar1_cl2048_2_of_2": {"inputs": {}, "outputs": {}},
    },
    "genie": {"context_lengths": [512], "supports_vision": False},
}
TOKENIZER: Json = {
    "added_tokens": [
        {"id": 0, "content": "<s>", "special": True},
        {"id": 1, "content": "</s>", "special": True},
        {"id": 4, "content": "<tool>", "special": False},
    ],
    "model": {"type": "BPE", "vocab": {"a": 2, "<end>": 3}},
}
EXTENSIONS: Json = {"devices": [{"soc_model": 60, "dsp_arch": "v73"}]}
TOKENIZER_CONFIG: Json = {"chat_template": "of the tokenizer"}

Change: TypeAlias = Callable[[Path], object]


def write(folder: Path) -> Path:
    """A whole bundle of two shards."""
    folder.mkdir(parents=True)
    for name, value in {
        "genie_config.json": CONFIG,
        "metadata.json": METADATA,
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": TOKENIZER_CONFIG,
        "htp.json": EXTENSIONS,
    }.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    for name in ("a.bin", "b.bin"):
        (folder / name).write_bytes(name.encode())
    return folder


def put(file: str, path: str, value: object) -> Change:
    """Set what is at a dotted path of a JSON file; `...` takes it out."""

    def change(folder: Path) -> None:
        whole = json.loads((folder / file).read_text(encoding="utf-8"))
        here = whole
        *way, last = path.split(".")
        for key in way:
            here = here[int(key)] if isinstance(here, list) else here.setdefault(key, {})
        if value is ...:
            del here[last]
        else:
            here[last] = copy.deepcopy(value)
        (folder / file).write_text(json.dumps(whole), encoding="utf-8")

    return change


def content(file: str, data: bytes) -> Change:
    """Give a file other content."""
    return lambda folder: (folder / file).write_bytes(data)


def gone(file: str) -> Change:
    """Take a file away."""
    return lambda folder: (folder / file).unlink()


def as_folder(file: str) -> Change:
    """Put a folder in the place of a file."""

    def change(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return change
