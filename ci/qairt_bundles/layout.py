"""The files of a bundle around its context binaries, as AI Hub lays them out."""

import json
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx

from ci.qairt_bundles.compiling import SOCS
from ci.qairt_bundles.corpus import BOS, CHAT_TEMPLATE, END, EOS, SPECIAL
from ci.qairt_bundles.decoder import GraphSpec
from ci.qairt_bundles.quantise import Ranges, encoding_of
from ci.qairt_bundles.shape import SHAPE
from ci.qairt_bundles.weights import DATA, TOKENIZER

MODEL_ID = "tiny_talk"
EXTENSIONS = "htp_backend_ext_config.json"
_DTYPES = {
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.UINT16: "uint16",
}


def write_files(
    folder: Path,
    arch: int,
    graphs: dict[GraphSpec, onnx.ModelProto],
    ranges: Ranges,
    shards: Iterable[str],
    qairt_version: str,
) -> None:
    """Write all of a bundle but its context binaries, named by `shards`."""
    contexts = sorted({spec.context for spec in graphs})
    metadata = {
        "model_id": MODEL_ID,
        "model_name": "Tiny-Talk",
        "runtime": "genie",
        "precision": "w8a16",
        "chipset_attributes": {"htp_version": arch, "soc_model": SOCS[arch]},
        "tool_versions": {"qairt": qairt_version},
        "model_files": {spec.name: _signature(model, ranges) for spec, model in graphs.items()},
        "genie": {
            "context_lengths": contexts,
            "supports_streaming": True,
            "supports_vision": False,
            "supports_thinking": False,
        },
    }
    _write(folder / "metadata.json", metadata)
    _write(folder / "genie_config.json", _config(contexts[-1], list(shards)))
    _write(folder / EXTENSIONS, _extensions(arch))
    _write(folder / "tokenizer_config.json", _tokenizer_config(contexts[-1]))
    shutil.copyfile(DATA / TOKENIZER, folder / "tokenizer.json")


def pack(folder: Path, target: Path) -> Path:
    """A zip of a bundle with its folder around it, as hubs give it."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    return target


def _config(context: int, shards: list[str]) -> dict[str, Any]:
    sampler = {"version": 1, "seed": 42, "temp": 0.8, "top-k": 40, "top-p": 0.95}
    backend = {
        "version": 1,
        "type": "QnnHtp",
        "QnnHtp": {
            "version": 1,
            "use-mmap": False,
            "spill-fill-bufsize": 0,
            "mmap-budget": 0,
            "poll": False,
            "cpu-mask": "0x1",
            "kv-dim": SHAPE.head_width,
            "pos-id-dim": SHAPE.head_width // 2,
            "allow-async-init": False,
            "rope-theta": int(SHAPE.rope_theta),
        },
        "extensions": EXTENSIONS,
    }
    binary = {"version": 1, "ctx-bins": shards}
    return {
        "dialog": {
            "version": 1,
            "type": "basic",
            "context": {
                "version": 1,
                "size": context,
                "n-vocab": SHAPE.vocabulary,
                "bos-token": SPECIAL.index(BOS),
                "eos-token": [SPECIAL.index(EOS), SPECIAL.index(END)],
            },
            "sampler": sampler,
            "tokenizer": {"version": 1, "path": "tokenizer.json"},
            "engine": {
                "version": 1,
                "n-threads": 1,
                "backend": backend,
                "model": {"version": 1, "type": "binary", "binary": binary},
            },
        }
    }


def _extensions(arch: int) -> dict[str, Any]:
    core = {"core_id": 0, "perf_profile": "burst", "rpc_control_latency": 100}
    device = {"soc_model": SOCS[arch], "dsp_arch": f"v{arch}", "cores": [core]}
    return {
        "devices": [device],
        "memory": {"mem_type": "shared_buffer"},
        # bundles carry this whether their weights are shared or not
        "context": {"weight_sharing_enabled": True},
    }


def _tokenizer_config(context: int) -> dict[str, Any]:
    return {
        "bos_token": BOS,
        "eos_token": END,
        "chat_template": CHAT_TEMPLATE,
        "model_max_length": context,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def _signature(model: onnx.ModelProto, ranges: Ranges) -> dict[str, Any]:
    """What goes into a graph and comes out, by name."""

    def facts(value: onnx.ValueInfoProto) -> dict[str, Any]:
        kind = value.type.tensor_type
        found: dict[str, Any] = {
            "shape": [one.dim_value for one in kind.shape.dim],
            "dtype": _DTYPES[kind.elem_type],
        }
        if kind.elem_type != onnx.TensorProto.INT32:
            encoding = encoding_of(value.name, ranges)
            scale, zero = float(encoding.scale), encoding.zero
            found["quantization_parameters"] = {"scale": scale, "zero_point": zero}
        return found

    return {
        "inputs": {one.name: facts(one) for one in model.graph.input},
        "outputs": {one.name: facts(one) for one in model.graph.output},
    }


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
