"""A stored or built-in model as JSON: what `list`, `pull` and the others show of it."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geniex_catalogue.staging import Partial
    from geniex_catalogue.stored import StoredModel

_RUNTIMES = {"gguf": "llama_cpp", "qairt": "qairt"}


def model_json(model: "StoredModel") -> dict[str, Any]:
    """The facts of a model in the store; sizes in bytes, labels by name, ages in seconds."""
    return {
        "name": model.name,
        "size": model.size,
        "runtime": _RUNTIMES.get(model.format or "", ""),
        "type": model.manifest.model_type if model.manifest else "",
        "precisions": sorted(model.precisions),
        "status": model.status,
        "partial": sorted(model.partial),
        "unfinished": [_partial_json(partial) for partial in _unfinished(model)],
        "reason": model.reason,
        "location": str(model.folder),
        "builtin": False,
    }


def builtin_json() -> list[dict[str, Any]]:
    """The models that are a part of geniex, in the same form."""
    from geniex_catalogue.entries import catalogue
    from geniex_catalogue.names import parse

    found = []
    for entry in catalogue().entries:
        if not entry.builtin:
            continue
        ref = parse(entry.name)
        files = [catalogue().builtin_file(ref.with_precision(label)) for label in entry.builtin]
        paths = [file[1] for file in files if file is not None]
        found.append(
            {
                "name": entry.name,
                "size": sum(path.stat().st_size for path in paths),
                "runtime": "llama_cpp",
                "type": "llm",
                "precisions": sorted(entry.builtin),
                "status": "ready",
                "partial": [],
                "unfinished": [],
                "reason": None,
                "location": str(paths[0].parent),
                "builtin": True,
            }
        )
    return found


def unfinished_text(model: "StoredModel") -> str:
    """What has arrived of precisions that are not whole, and how long ago; empty for none."""
    return ", ".join(map(_partial_text, _unfinished(model)))


def _unfinished(model: "StoredModel") -> "tuple[Partial, ...]":
    if model.reason is None or model.folder.is_symlink():
        return ()
    from geniex_catalogue.manifest import INFLIGHT
    from geniex_catalogue.staging import partials

    return partials(model.folder / INFLIGHT)


def _partial_json(partial: "Partial") -> dict[str, Any]:
    return {
        "precision": partial.label,
        "size": partial.size,
        "total": partial.total,
        "age": max(0, round(time.time() - partial.touched)),
    }


def _partial_text(partial: "Partial") -> str:
    from geniex_catalogue.sizes import size_text

    of = f" of {size_text(partial.total)}" if partial.total else ""
    age = _age(time.time() - partial.touched)
    return f"{partial.label} {size_text(partial.size)}{of}, {age} old"


def _age(seconds: float) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count = int(seconds // length)
        if count >= 1:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a minute"
