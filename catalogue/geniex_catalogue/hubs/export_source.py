"""What is exported: a folder with the ONNX graphs of a model and the other files of its bundle.

    NAME.onnx, or a folder NAME, NAME.onnx or NAME.aimet with one .onnx file in it
    NAME = [prefix_]ar<TOKENS>_cl<CONTEXT>_<PART>_of_<PARTS>        prompt_ar128_cl4096_1_of_4

A graph takes TOKENS at a time: each part has one for prompts and one for single tokens, which share
their weights. `genie_config.json` names the context binary of each part.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex_catalogue.bundle_files import BUNDLE_CONFIG
from geniex_catalogue.errors import UsageError
from geniex_catalogue.folder import readable
from geniex_catalogue.manifest import RESERVED, check_file_name
from geniex_catalogue.regular import read_regular

_GRAPH = re.compile(r"(?:[A-Za-z]+_)?ar(\d{1,6})_cl(\d{1,7})_(\d{1,3})_of_(\d{1,3})", re.ASCII)
EXTENSIONS = "htp_backend_ext_config.json"
_TOKENIZER = "tokenizer.json"
_MAX_JSON = 16 << 20
# files of a folder that are no part of a bundle: what graphs are made of
_SOURCES = (".onnx", ".data", ".encodings", ".aimet", ".dlc", ".bin", ".zip")
_LAYOUT = (
    "name the graphs like `prompt_ar128_cl4096_1_of_1.onnx` and `token_ar1_cl4096_1_of_1.onnx`"
)


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: its name in the context binary, and the file or folder it is in."""

    name: str
    path: Path
    tokens: int
    context: int
    part: int
    parts: int

    @property
    def fingerprint(self) -> str:
        """What changes with its files: their names, sizes and times."""
        files = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        facts = [
            f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}"
            for path in files
            if path.is_file()
        ]
        return "|".join(facts)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(path.stat().st_size for path in files if path.is_file())


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The graphs that share one context binary, and the name of that file."""

    number: int
    binary: str
    graphs: tuple[Graph, ...]


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A model that can be exported; `others` are the bundle's files that stay as they are."""

    folder: Path
    parts: tuple[ModelPart, ...]
    others: tuple[str, ...]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """All graphs."""
        return tuple(graph for part in self.parts for graph in part.graphs)


def read_source(folder: Path) -> ExportSource:
    """What is to be exported from a folder. Raises UsageError: what is missing, ModelFileError."""
    if not folder.is_dir():
        raise UsageError(
            f"`{folder}` is not a folder",
            hint="give the folder that the model was exported to: its ONNX graphs, "
            f"{BUNDLE_CONFIG} and {_TOKENIZER}",
        )
    with readable(folder):
        graphs = _graphs(folder)
        others = tuple(
            sorted(
                path.name
                for path in folder.iterdir()
                if path.is_file()
                and not path.name.startswith(".")
                and path.name.lower() not in RESERVED
                and not path.name.lower().endswith(_SOURCES)
            )
        )
        if not graphs:
            raise UsageError(f"`{folder}` holds no graph of a language model", hint=_LAYOUT)
        for name in (BUNDLE_CONFIG, _TOKENIZER):
            if name not in others:
                raise UsageError(
                    f"`{folder}` has no {name}",
                    hint="the files of the bundle belong beside the graphs: "
                    f"{BUNDLE_CONFIG}, {_TOKENIZER}, metadata.json",
                )
        binaries = _binaries(folder)
        if EXTENSIONS in others:
            read_settings_of_npu(folder / EXTENSIONS)
    return ExportSource(folder, _parts(folder, graphs, binaries), others)


def _graphs(folder: Path) -> tuple[Graph, ...]:
    """The graphs in a folder, by name. Raises UsageError for a faulty one, or one there twice."""
    found: dict[str, Graph] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".onnx").removesuffix(".aimet")
        match = _GRAPH.fullmatch(name)
        if match is None or not (path.is_dir() or path.name.endswith(".onnx")):
            continue
        graph = Graph(name, path, *map(int, match.groups()))
        if not 1 <= graph.part <= graph.parts:
            raise UsageError(f"`{path}` is part {graph.part} of {graph.parts}", hint=_LAYOUT)
        if path.is_dir() and len(list(path.glob("*.onnx"))) != 1:
            raise UsageError(f"`{path}` does not hold exactly one .onnx file", hint=_LAYOUT)
        if other := found.get(name):
            raise UsageError(
                f"`{other.path}` and `{path}` are one graph", hint="remove one of them"
            )
        found[name] = graph
    return tuple(found.values())


def _parts(
    folder: Path, graphs: tuple[Graph, ...], binaries: tuple[str, ...]
) -> tuple[ModelPart, ...]:
    """The parts, all whole and alike. Raises UsageError."""
    counts = sorted({graph.parts for graph in graphs})
    if len(counts) > 1:
        raise UsageError(
            f"`{folder}` holds graphs in {' and '.join(map(str, counts))} parts: several models"
        )
    shapes = {(graph.tokens, graph.context) for graph in graphs}
    if len({tokens for tokens, _ in shapes}) < 2 or 1 not in {tokens for tokens, _ in shapes}:
        raise UsageError(
            "a model takes a graph for prompts and one for single tokens (ar1)", hint=_LAYOUT
        )
    if len(binaries) != counts[0]:
        raise UsageError(
            f"{BUNDLE_CONFIG} names {len(binaries)} context binaries, the graphs are in "
            f"{counts[0]} parts",
            hint="`ctx-bins` has one name for each part",
        )
    parts = []
    for number, binary in enumerate(binaries, 1):
        own = tuple(graph for graph in graphs if graph.part == number)
        if missing := shapes - {(graph.tokens, graph.context) for graph in own}:
            tokens, context = min(missing)
            raise UsageError(
                f"part {number} of {counts[0]} has no graph ar{tokens}_cl{context}", hint=_LAYOUT
            )
        parts.append(ModelPart(number, binary, own))
    return tuple(parts)


def _binaries(folder: Path) -> tuple[str, ...]:
    """The names of the context binaries, in the order of the parts. Raises UsageError."""
    value: Any = _json(folder / BUNDLE_CONFIG)
    for key in ("dialog", "engine", "model", "binary", "ctx-bins"):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"`{folder / BUNDLE_CONFIG}` has no list `ctx-bins`")
    for name in value:
        if "/" in check_file_name(name) or not name.endswith(".bin"):
            raise UsageError(f"`{name}` in {BUNDLE_CONFIG} is no name for a context binary")
    if len(set(value)) != len(value):
        raise UsageError(f"{BUNDLE_CONFIG} names a context binary twice")
    return tuple(value)


def read_settings_of_npu(path: Path) -> dict[str, Any]:
    """A bundle's settings of the NPU, with a list of `devices`. Raises UsageError, OSError."""
    settings = _json(path)
    devices = settings.get("devices") if isinstance(settings, dict) else None
    if not isinstance(devices, list) or not all(isinstance(entry, dict) for entry in devices):
        raise UsageError(f"`{path}` has no list of `devices`")
    return dict(settings)


def _json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, _MAX_JSON))
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"`{path}` is not JSON") from exc
