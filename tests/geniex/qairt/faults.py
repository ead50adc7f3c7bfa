"""Bundles that cannot be used, each in one way."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.qairt_bundles import QairtBundles


@dataclass(frozen=True)
class Fault:
    """How a bundle is spoiled, and what the error has to say."""

    spoil: Callable[[Path], object]
    says: str
    weight_sharing: bool = False

    def make(self, bundles: "QairtBundles", folder: Path) -> Path:
        """A spoiled bundle in a folder of its own."""
        source = (
            bundles.folder(context=512)
            if not self.weight_sharing
            else bundles.folder(context=64, weight_sharing=True)
        )
        target = folder / f"{self.spoil.__name__.strip('_')}-{self.weight_sharing}"
        shutil.copytree(source, target)
        self.spoil(target)
        return target


def _nothing(folder: Path) -> None:
    """It is as it was made."""


def _for_another_npu(folder: Path) -> None:
    file = folder / "htp_backend_ext_config.json"
    settings = json.loads(file.read_text())
    settings["devices"][0] |= {"dsp_arch": "v81", "soc_model": 88}
    file.write_text(json.dumps(settings))
    file = folder / "metadata.json"
    facts = json.loads(file.read_text())
    facts["chipset_attributes"] |= {"htp_version": 81, "soc_model": 88}
    file.write_text(json.dumps(facts))


def _newer(folder: Path) -> None:
    file = folder / "metadata.json"
    facts = json.loads(file.read_text())
    facts["tool_versions"]["qairt"] = "9.9.0"
    file.write_text(json.dumps(facts))


def _without_a_shard(folder: Path) -> None:
    file = folder / "genie_config.json"
    config = json.loads(file.read_text())
    config["dialog"]["engine"]["model"]["binary"]["ctx-bins"].append("not_there.bin")
    file.write_text(json.dumps(config))


def _truncated(folder: Path) -> None:
    shard = next(folder.glob("*.bin"))
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])


def _garbled(folder: Path) -> None:
    shard = next(folder.glob("*.bin"))
    data = bytearray(shard.read_bytes())
    at = len(data) // 10
    data[at : at + 4096] = random.Random(1).randbytes(4096)
    shard.write_bytes(data)


def _corrupt(folder: Path) -> None:
    (folder / "metadata.json").write_text('{"model_id": "tiny", "genie": [')


FAULTS = {
    "shared": Fault(_nothing, "share their weights", weight_sharing=True),
    "foreign": Fault(_for_another_npu, "compiled for HTP v73"),
    "newer": Fault(_newer, "QAIRT 9.9.0 or newer"),
    "missing": Fault(_without_a_shard, "not_there.bin"),
    "truncated": Fault(_truncated, "truncated"),
    "garbled": Fault(_garbled, "cannot be loaded by libGenie"),
    "corrupt": Fault(_corrupt, "metadata.json"),
}
