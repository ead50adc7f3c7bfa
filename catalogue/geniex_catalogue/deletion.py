"""Deleting inside the store, and only there: links are removed, never followed."""

import os
import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path

from geniex_catalogue.manifest import HOLDER, LOCK, MANIFEST


def drop_if_empty(folder: Path) -> None:
    """Remove a model's folder that holds nothing but its lock; call it under the lock."""
    # what cannot be removed is empty, and shows as nothing
    with suppress(OSError):
        if {path.name for path in folder.iterdir()} <= {LOCK, HOLDER}:
            for name in (HOLDER, LOCK):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()


def drop_folders(folder: Path) -> None:
    """Remove a model's and an organisation's folder where they are empty."""
    # rmdir takes nothing that is in use
    for empty in (folder, folder.parent):
        with suppress(OSError):
            empty.rmdir()


def delete_tree(path: Path) -> int:
    """Delete a file, a link (not what it points to) or a folder; the bytes freed."""
    if path.is_symlink() or not path.is_dir():
        return _unlink(path)
    # imported here: with its archive formats it is slow to load
    import shutil

    freed = held_by(path)
    shutil.rmtree(path)
    return freed


def held_by(folder: Path) -> int:
    """Bytes that deleting a folder frees, lock and manifest aside: a file counts with its last
    name."""
    seen: Counter[tuple[int, int]] = Counter()
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            if name not in (LOCK, HOLDER, MANIFEST):
                with suppress(FileNotFoundError):
                    found = Path(base, name).lstat()
                    seen[found.st_dev, found.st_ino] += 1
                    last = seen[found.st_dev, found.st_ino] == found.st_nlink
                    total += room_of(found) if last and not stat.S_ISLNK(found.st_mode) else 0
    return total


def room_of(found: os.stat_result) -> int:
    """Bytes that a file takes: of one with holes, only what is in it."""
    blocks: int | None = getattr(found, "st_blocks", None)
    return found.st_size if blocks is None else min(found.st_size, blocks * 512)


def _unlink(path: Path) -> int:
    try:
        found = path.lstat()
        path.unlink()
    except FileNotFoundError:
        return 0
    # a hard link's bytes stay where the other name is
    return room_of(found) if found.st_nlink == 1 and not stat.S_ISLNK(found.st_mode) else 0


def delete_file(folder: Path, path: Path) -> int:
    """Delete one of a model's files, and the folders that it leaves empty."""
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        return 0
    freed = _unlink(path)
    for parent in path.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()
    return freed
