"""A bundle that only its JSON files make one, and a machine whose qairt follows a script."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from geniex_runtimes import hardware, registry
from geniex_runtimes.contract import Device, HardwareProfile
from geniex_runtimes.fake import FakeRuntime
from geniex_runtimes.options import SIMULATOR
from tests.geniex.conftest import MACHINE

CONTEXT = 512
_CONFIG = {
    "dialog": {
        "context": {"size": CONTEXT, "n-vocab": 258, "bos-token": 0, "eos-token": 1},
        "tokenizer": {"path": "tokenizer.json"},
        "engine": {
            "backend": {"type": "QnnHtp"},
            "model": {"type": "binary", "binary": {"ctx-bins": ["part.bin"]}},
        },
    }
}
_DEVICES = (Device(SIMULATOR, "scripted", "npu", "qairt"),)
_SIMULATED = replace(MACHINE, devices=_DEVICES)


def write_bundle(folder: Path) -> Path:
    """A bundle without weights."""
    folder.mkdir()
    (folder / "genie_config.json").write_text(json.dumps(_CONFIG))
    vocabulary = {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1}}
    (folder / "tokenizer.json").write_text(json.dumps({"model": vocabulary}))
    (folder / "part.bin").write_bytes(bytes(1000))
    return folder


def install_qairt(patch: pytest.MonkeyPatch) -> FakeRuntime:
    """Put a scripted runtime in the place of qairt, on a machine with the simulator alone."""
    runtime = FakeRuntime(
        name="qairt", formats=frozenset({"qairt"}), devices=_DEVICES, context_length=CONTEXT
    )

    def probe(data_dir: Path) -> HardwareProfile:
        return _SIMULATED

    module = ModuleType("scripted_qairt")
    module.__dict__["make"] = lambda: runtime
    patch.setitem(sys.modules, "scripted_qairt", module)
    patch.setattr(registry, "BUILT_IN", {"qairt": "scripted_qairt:make"})
    patch.setattr(registry, "ANNOUNCED", {}, raising=False)
    patch.setattr(hardware, "probe", probe)
    return runtime
