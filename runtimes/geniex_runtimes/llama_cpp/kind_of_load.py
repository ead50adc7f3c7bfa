"""What a state depends on, as facts to compare: a state fits where all of them are the same."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.llama_cpp import survival
from geniex_runtimes.llama_cpp.context import ContextOptions
from geniex_runtimes.llama_cpp.weights import Weights
from geniex_runtimes.options import LoadOptions

_HEAD = 1 << 20  # bytes of a file's beginning: metadata, vocabulary
# options of a context that change no number in it
_FREE = frozenset({"threads", "outputs", "length"})
# models with two sets of factors take the one that the length of the context calls for
_LONG_FACTORS = "rope_factors_long.weight"


def facts(
    model: ResolvedModel, weights: Weights, load: LoadOptions, context: ContextOptions
) -> dict[str, str]:
    """The facts of a load. Raises OSError where a file cannot be read."""
    package = survival.package_folder()
    options = {name: value for name, value in asdict(context).items() if name not in _FREE}
    options |= {
        "devices": load.devices,
        "gpu_layers": load.gpu_layers if load.devices else 0,
        "extra_buffers": load.extra_buffers,
        "heads": weights.heads,
    }
    header = model.header
    if header is None or any(tensor.name == _LONG_FACTORS for tensor in header.tensors):
        options["length"] = context.length
    return {
        "build": survival.build_key(package) if package is not None else "",
        "model": _files(model.files),
        "context": json.dumps(options, sort_keys=True),
    }


def _files(files: Sequence[Path]) -> str:
    return ", ".join(_identity(path) for path in files)


def _identity(path: Path) -> str:
    """Tells a file from others, and from what it was before: size, time, and its beginning."""
    found = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_HEAD)).hexdigest()
    return f"{found.st_size} {found.st_mtime_ns} {head}"
