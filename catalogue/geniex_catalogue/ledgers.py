"""The ledgers of files that are here: what tells, block by block, which bytes are damaged.

A download leaves its ledger (`hubs.ledger`) under `.ledgers` in the model's folder. When the file
turns out damaged, it becomes a part again with that ledger, and only what is wrong is fetched.
"""

import shutil
from contextlib import suppress
from pathlib import Path

from geniex_catalogue import deletion
from geniex_catalogue.manifest import LEDGERS


def keep(folder: Path, name: str, part: Path) -> None:
    """Keep the ledger of a part that is whole. Raises OSError."""
    from geniex_catalogue.hubs.part import facts_path

    source, target = facts_path(part), _place(folder, name)
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def salvage(folder: Path, name: str, part: Path) -> None:
    """Make a stored file that is damaged the part of its own repair, where its ledger is here.

    A file that others have links to is copied: it is theirs too. Raises OSError.
    """
    from geniex_catalogue.hubs.part import facts_path

    ledger, stored = _place(folder, name), folder.joinpath(*name.split("/"))
    if part.exists() or not can_salvage(folder, name):
        return
    part.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ledger, facts_path(part))
    if stored.stat().st_nlink > 1:
        shutil.copyfile(stored, part)
    else:
        stored.replace(part)


def can_salvage(folder: Path, name: str) -> bool:
    """Whether a stored file can become the part of its own repair."""
    stored = folder.joinpath(*name.split("/"))
    return _place(folder, name).is_file() and stored.is_file() and not stored.is_symlink()


def drop(folder: Path, name: str) -> None:
    """Delete the ledger of a file that is gone; one that cannot be deleted does no harm."""
    with suppress(OSError):
        if (place := _place(folder, name)).is_file():
            deletion.delete_file(folder, place)


def _place(folder: Path, name: str) -> Path:
    return (folder / LEDGERS).joinpath(*f"{name}.json".split("/"))
