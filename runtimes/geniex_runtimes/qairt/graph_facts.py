"""The graphs of a bundle's context binaries: what they say, else what metadata.json says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geniex_catalogue.bundle_files import BUNDLE_FACTS
from geniex_catalogue.errors import BundleError
from geniex_runtimes.qairt.bundle import Bundle
from geniex_runtimes.qairt.bundle_facts import graph_name
from geniex_runtimes.qairt.bundle_json import Section, read_json
from geniex_runtimes.qairt.inspection import GraphFacts, TensorFacts, inspect

_MAX_SIZE = 1 << 31

Shards = list[tuple[Path, Sequence[GraphFacts]]]


def shards_of(bundle: Bundle, libraries: Path) -> Shards:
    """Each context binary with its graphs, in order. Raises BundleError and LoadError.

    Only a binary whose description has an unknown form is taken at metadata.json's word.
    """
    shards: Shards = []
    for number, facts in enumerate(inspect(bundle.shards, libraries), 1):
        path = bundle.shards[number - 1]
        graphs = facts.graphs if facts else described(bundle.folder, number, len(bundle.shards))
        if not graphs:
            raise BundleError(
                path, "is of a form that is not known, and metadata.json names no graphs"
            )
        shards.append((path, graphs))
    return shards


def described(folder: Path, part: int, parts: int) -> tuple[GraphFacts, ...]:
    """The graphs of one part by metadata.json, whose `model_files` are keyed by graph."""
    path = folder / BUNDLE_FACTS
    if not path.exists():
        return ()
    files = read_json(path).section("model_files")
    found = []
    for key in files.values:
        name = graph_name(key)
        if name is not None and (name.part, name.parts) == (part, parts):
            graph = files.section(key)
            sides = (_tensors(graph.section("inputs")), _tensors(graph.section("outputs")))
            found.append(GraphFacts(key, *sides))
    return tuple(found)


def _tensors(section: Section) -> tuple[TensorFacts, ...]:
    found = []
    for name in section.values:
        tensor = section.section(name)
        shape = tensor.wholes("shape", 1, _MAX_SIZE)
        dtype = tensor.text("dtype")
        if not shape or dtype is None:
            raise section.fault(name, "has no `shape` or no `dtype`")
        scale, zero = _quantisation(tensor)
        found.append(TensorFacts(name, shape, dtype, scale, None if zero is None else -zero))
    return tuple(found)


def _quantisation(tensor: Section) -> tuple[float | None, int | None]:
    values: Mapping[str, Any] = tensor.section("quantization_parameters").values
    if not values:
        return None, None
    section = tensor.section("quantization_parameters")
    scale, zero = (
        section.number("scale", 0, 1e30),
        section.whole("zero_point", -_MAX_SIZE, _MAX_SIZE),
    )
    return scale, zero
