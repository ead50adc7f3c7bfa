"""Files to resolve, and what they are resolved to."""

from pathlib import Path

from geniex_catalogue.resolver import ResolvedModel, Use, resolve
from geniex_catalogue.store import Store
from tests.ggufwriter import small


def found(text: str, store: Store, use: Use = "model") -> ResolvedModel:
    """What a text means, where nothing must be pulled for it."""
    resolved = resolve(text, store, use)
    assert isinstance(resolved, ResolvedModel)
    return resolved


def write(folder: Path, **files: bytes) -> Path:
    """Files by name, `__` for a slash; `.gguf` is added."""
    for name, data in files.items():
        path = folder / f"{name.replace('__', '/')}.gguf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def shards(folder: Path, stem: str, count: int, missing: tuple[int, ...] = ()) -> list[Path]:
    """A split model; `missing` are the numbers of the parts that are not written."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(1, count + 1):
        path = folder / f"{stem}-{number:05d}-of-{count:05d}.gguf"
        if number not in missing:
            path.write_bytes(small(part=(number, count)))
        paths.append(path)
    return paths
