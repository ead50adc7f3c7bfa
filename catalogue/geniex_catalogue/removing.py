"""Removing a model: once it is begun it is no model any more, whenever it is stopped."""

from pathlib import Path

from geniex_catalogue import deletion, durable
from geniex_catalogue.manifest import HOLDER, INFLIGHT, LOCK, MANIFEST, REMOVING
from geniex_catalogue.model_lock import unwritable


def remove(folder: Path, *, inflight: bool) -> int:
    """Delete what is in a model's folder, with what is unfinished of it (`inflight`) or without.

    Call it under the lock. The bytes freed. Raises StoreError.
    """
    freed = 0
    try:
        if inflight and (folder / INFLIGHT).exists():
            freed += deletion.delete_tree(folder / INFLIGHT)
        if (folder / MANIFEST).is_file():
            (folder / MANIFEST).replace(folder / REMOVING)
            durable.sync_folder(folder)
        return freed + finish(folder)
    except OSError as exc:
        raise unwritable(folder, exc) from exc


def is_removing(folder: Path) -> bool:
    """Whether somebody was stopped while removing the model (or is at it now)."""
    return (folder / REMOVING).is_file()


def finish(folder: Path) -> int:
    """Delete all that is left besides the lock and what is unfinished; the bytes freed.

    Raises OSError.
    """
    kept, uncounted = (LOCK, HOLDER, INFLIGHT), (MANIFEST, REMOVING)
    freed = 0
    # the word that it is no model goes last
    for path in sorted(folder.iterdir(), key=lambda path: path.name == REMOVING):
        if path.name not in kept:
            size = deletion.delete_tree(path)
            freed += size if path.name not in uncounted else 0
    return freed
