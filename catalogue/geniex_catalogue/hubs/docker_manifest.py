"""What manifests on Docker Hub say: a model's layers, and which of several manifests to take."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geniex_catalogue import precision
from geniex_catalogue.errors import HubError, ModelRefError
from geniex_catalogue.names import ModelRef

_AI = "application/vnd.docker.ai."
GGUF = f"{_AI}gguf.v3"
TEMPLATE = f"{_AI}chat.template.jinja"
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
# where a layer says what its file is called
_NAME = "org.cncf.model.filepath"
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Layer:
    """A blob of a model: what it is, its sha256, its bytes, and the name it was given."""

    media_type: str
    sha256: str
    size: int
    name: str = ""


def is_index(document: Mapping[str, Any]) -> bool:
    """Whether a document lists manifests, one for each kind of machine."""
    return document.get("mediaType") in INDEXES or "manifests" in document


def choose_entry(index: Mapping[str, Any], machine: str, ref: ModelRef) -> str:
    """The digest of an index's manifest for a machine; of those for any machine, the first.

    Raises HubError where there is none.
    """
    wanted = _MACHINES.get(machine.lower(), machine.lower())
    found: dict[str, str] = {}
    for entry in _objects(index.get("manifests")):
        place = entry.get("platform")
        kind = str(place.get("architecture") or "") if isinstance(place, dict) else ""
        digest = entry.get("digest")
        # `unknown` is what attestations are for
        if kind != "unknown" and isinstance(digest, str) and DIGEST.fullmatch(digest):
            found.setdefault(kind, digest)
    if chosen := found.get(wanted) or found.get(""):
        return chosen
    there = ", ".join(sorted(found)) or "nothing"
    raise HubError(f"`{ref}` has no model for {wanted} on Docker Hub, only for: {there}")


def read_layers(manifest: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layers of a manifest. Raises HubError for one that has no usable digest."""
    layers = []
    for entry in _objects(manifest.get("layers")):
        digest = DIGEST.fullmatch(str(entry.get("digest")))
        size = entry.get("size")
        if digest is None or not isinstance(size, int) or size < 0:
            raise HubError("the manifest on Docker Hub has a layer without a digest or a size")
        notes = entry.get("annotations")
        name = notes.get(_NAME) if isinstance(notes, dict) else None
        layers.append(
            Layer(
                str(entry.get("mediaType")),
                digest[1],
                size,
                name.rpartition("/")[2] if isinstance(name, str) else "",
            )
        )
    return tuple(layers)


def gguf_name(number: int, count: int, layer: Layer) -> str:
    """What a file of weights is called: as its layer says, else by its place among them."""
    if layer.name.lower().endswith(".gguf"):
        return layer.name
    return "model.gguf" if count == 1 else f"model-{number:05}-of-{count:05}.gguf"


def label_of(config: Mapping[str, Any]) -> str:
    """The precision that a model's configuration states."""
    inner = config.get("config")
    stated = inner.get("quantization") if isinstance(inner, dict) else None
    if not isinstance(stated, str) or not stated.strip():
        return precision.DEFAULT
    found = precision.label_of(stated.strip())
    if found is not None:
        return found
    text = re.sub(r"[^A-Za-z0-9._+-]", "_", stated.strip().upper())[:40].strip("._+-")
    try:
        return ModelRef("ai", "x", text).precision or precision.DEFAULT
    except ModelRefError:
        return precision.DEFAULT


def no_weights(ref: ModelRef, layers: Sequence[Layer]) -> HubError:
    """The error for a model that holds no GGUF: it says what it holds."""
    kinds = sorted({layer.media_type.removeprefix(_AI) for layer in layers}) or ["nothing"]
    others = [kind for kind in kinds if "safetensors" in kind or "dduf" in kind]
    held = f"it is made of {', '.join(others)}" if others else f"it holds {', '.join(kinds)}"
    return HubError(
        f"`{ref}` has no GGUF on Docker Hub: {held}", hint="look for a GGUF version of this model"
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
