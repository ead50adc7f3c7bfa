"""Models that are put into a store without a hub."""

import json
from pathlib import Path

from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store

REF = ModelRef("org", "repo")


def manifest(*names: str, label: str = "Q4_0", size: int = 10, ref: ModelRef = REF) -> Manifest:
    """A precision of these files, `size` bytes each."""
    first, *rest = (FileRecord(name, size, precision=label) for name in names)
    return Manifest(ref.name, "gguf", {label: first}, tuple(rest))


def publish(store: Store, *names: str, label: str = "Q4_0", ref: ModelRef = REF) -> None:
    """Store a precision of these files, 10 bytes each."""
    new = manifest(*names, label=label, ref=ref)
    with store.lock(ref):
        folder = store.stage(ref, new)
        staged = {}
        for name in names:
            staged[name] = folder / (name.replace("/", "_") + ".partial")
            staged[name].write_bytes(b"x" * 10)
        store.publish(ref, new, staged)


def tree(folder: Path) -> set[str]:
    """All files below a folder."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


# a manifest as the caches of GenieX have them
THEIRS = {
    "Name": "org/repo",
    "PluginId": "llama_cpp",
    "ModelFile": {
        "Q4_0": {"Name": "a-Q4_0-00001-of-00002.gguf", "Downloaded": True, "Size": 10},
        "Q8_0": {"Name": "a-Q8_0.gguf", "Downloaded": False, "Size": 10},
    },
    "ExtraFiles": [
        {"Name": "a-Q4_0-00002-of-00002.gguf", "Downloaded": True, "Size": 10},
        {"Name": "other-00002-of-00002.gguf", "Downloaded": True, "Size": 10},
    ],
}


def theirs(store: Store) -> Path:
    """Put `THEIRS` with its files into the store."""
    folder = store.models / "org" / "repo"
    folder.mkdir(parents=True)
    (folder / "geniex.json").write_text(json.dumps(THEIRS))
    for name in ("a-Q4_0-00001-of-00002", "a-Q4_0-00002-of-00002", "other-00002-of-00002"):
        (folder / f"{name}.gguf").write_bytes(b"x" * 10)
    return folder
