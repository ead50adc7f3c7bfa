"""A stored model as JSON: what `list`, `pull` and the others show of it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geniex_catalogue.stored import StoredModel

_RUNTIMES = {"gguf": "llama_cpp", "qairt": "qairt"}


def model_json(model: "StoredModel") -> dict[str, Any]:
    """The facts of a model in the store; sizes in bytes, labels by name."""
    return {
        "name": model.name,
        "size": model.size,
        "runtime": _RUNTIMES.get(model.format or "", ""),
        "type": model.manifest.model_type if model.manifest else "",
        "precisions": sorted(model.precisions),
        "status": model.status,
        "partial": sorted(model.partial),
        "reason": model.reason,
        "location": str(model.folder),
    }
