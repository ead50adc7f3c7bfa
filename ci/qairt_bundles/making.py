"""Making a bundle, once: what is made is kept by the content of everything that goes into it."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import onnx

from ci.llama_wheel import cache_root
from ci.qairt_bundles.calibrate import RANGES
from ci.qairt_bundles.compiling import compile_context
from ci.qairt_bundles.decoder import GraphSpec, build
from ci.qairt_bundles.layout import pack, write_files
from ci.qairt_bundles.quantise import Ranges
from ci.qairt_bundles.weights import DATA, load

# sources that no bundle depends on
_OUTSIDE = {"__main__.py", "training.py", "vocabulary.py", "reference.py", "calibrate.py"}
# the widest that a short context leaves room for, and one that reads long prompts quickly
_SHORT, _NARROW, _WIDE = 64, 16, 64


@dataclass(frozen=True, slots=True)
class Variant:
    """Which bundle: for what Hexagon, in how many shards, with which context lengths."""

    arch: int = 73
    parts: int = 1
    contexts: tuple[int, ...] = (64,)
    weight_sharing: bool = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        lengths = "-".join(map(str, self.contexts))
        shared = "-shared" if self.weight_sharing else ""
        return f"tiny_talk-w8a16-v{self.arch}-{self.parts}part-cl{lengths}{shared}"

    def graphs(self) -> list[list[GraphSpec]]:
        """The graphs of each shard: for every context length one for prompts, one for tokens."""
        return [
            [
                GraphSpec(width, context, part, self.parts)
                for context in self.contexts
                for width in (_NARROW if context <= _SHORT else _WIDE, 1)
            ]
            for part in range(1, self.parts + 1)
        ]


class Maker:
    """Makes bundles below a folder, by default one in the user's cache."""

    def __init__(self, cache: Path | None = None) -> None:
        root = cache or cache_root() / "qairt-bundles"
        self.folder = root / _fingerprint()

    def folder_of(self, variant: Variant) -> Path:
        """The bundle as a folder, which is not to be changed. Raises CompileError."""
        target = self.folder / variant.name
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".making-") as scratch:
                made = self._make(variant, Path(scratch))
                self._publish(made, target)
        return target

    def zip_of(self, variant: Variant) -> Path:
        """The bundle as a zip. Raises CompileError."""
        target = self.folder / f"{variant.name}.zip"
        if not target.exists():
            folder = self.folder_of(variant)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".making-") as scratch:
                pack(folder, Path(scratch) / target.name).replace(target)
        return target

    def _make(self, variant: Variant, scratch: Path) -> Path:
        folder = scratch / variant.name
        folder.mkdir()
        ranges, weights = read_ranges(), load()
        models: dict[GraphSpec, onnx.ModelProto] = {}
        shards = []
        for part, specs in enumerate(variant.graphs(), 1):
            paths = {}
            for spec in specs:
                models[spec] = build(spec, weights, ranges)
                paths[spec.name] = scratch / f"{spec.name}.onnx"
                onnx.save(models[spec], paths[spec.name])
            shards.append(f"tiny_talk_part_{part}_of_{variant.parts}.bin")
            compile_context(
                paths,
                variant.arch,
                folder / shards[-1],
                self.folder / "dlc",
                weight_sharing=variant.weight_sharing,
            )
        write_files(folder, variant.arch, models, ranges, shards, _qairt_version())
        return folder

    def _publish(self, made: Path, target: Path) -> None:
        try:
            made.rename(target)
        except OSError:
            # another process was quicker, with the same
            if not target.exists():
                raise
            shutil.rmtree(made)


def read_ranges(folder: Path = DATA) -> Ranges:
    """The committed ranges of all values."""
    found = json.loads((folder / RANGES).read_text(encoding="utf-8"))
    return {name: (low, high) for name, (low, high) in found.items()}


def reference_models(variant: Variant) -> dict[GraphSpec, onnx.ModelProto]:
    """The quantised graphs of a variant, for the CPU."""
    ranges, weights = read_ranges(), load()
    return {spec: build(spec, weights, ranges) for part in variant.graphs() for spec in part}


def _qairt_version() -> str:
    """The version of QAIRT that the package onnxruntime-qnn holds, such as 2.51.0."""
    from onnxruntime_qnn import build_and_package_info as facts

    return str(facts.qnn_version)


def _fingerprint() -> str:
    """A name for what goes in: these sources, the data, and the compiler's version."""
    digest = hashlib.sha256(version("onnxruntime-qnn").encode())
    here = Path(__file__).parent
    sources = (path for path in here.glob("*.py") if path.name not in _OUTSIDE)
    for path in sorted([*sources, *DATA.iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
