"""The unfinished files of a model: what `.inflight` holds, and for which precisions."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue import deletion, durable
from geniex_catalogue.errors import ManifestError
from geniex_catalogue.manifest import JOURNAL, MANIFEST, FileRecord, read
from geniex_catalogue.stored import records_of, without


@dataclass(frozen=True, slots=True)
class Partial:
    """What has arrived of a precision: bytes here, of how many (None: not known), and since when.

    `touched` is when the last of it came, in seconds of the epoch.
    """

    label: str
    size: int
    total: int | None
    touched: float


def partials(folder: Path) -> tuple[Partial, ...]:
    """The unfinished precisions in a staging folder; never an error for what is in it."""
    try:
        staged = read(folder / MANIFEST)
    except (FileNotFoundError, ManifestError):
        return ()
    found = []
    for label in staged.models:
        records = records_of(staged, label)
        here = [_arrival(folder, record) for record in records]
        touched = max(moment for _, moment in here) or _mtime(folder / MANIFEST)
        sizes = [record.size for record in records]
        size = sum(count for count, _ in here)
        found.append(Partial(label, size, sum(sizes) if all(sizes) else None, touched))
    return tuple(found)


def _arrival(folder: Path, record: FileRecord) -> tuple[int, float]:
    """Bytes of a file that have arrived, and when the last of them did (0.0: never)."""
    # imported here: only who asks for it pays
    from geniex_catalogue.hubs.part import ENDING, arrived

    whole = folder.joinpath(*record.name.split("/"))
    part = whole.with_name(whole.name + ENDING)
    try:
        if whole.is_file():
            return whole.stat().st_size, _mtime(whole)
        return arrived(part), _mtime(part)
    except (OSError, ValueError):
        return 0, 0.0


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def settle(folder: Path) -> None:
    """Keep of a staging folder what has begun to arrive; without such things, it goes.

    Files that are being moved to their place are left alone. Raises OSError.
    """
    if not folder.is_dir() or (folder / JOURNAL).is_file():
        return
    try:
        staged = before = read(folder / MANIFEST)
    except (FileNotFoundError, ManifestError):
        deletion.delete_tree(folder)
        return
    present = {path.relative_to(folder).as_posix(): path for path in _unplaced(folder)}
    sizes = {name: path.lstat().st_size for name, path in present.items() if not path.is_dir()}
    for label in list(staged.models):
        if not any(_arrived(record, sizes) for record in records_of(staged, label)):
            staged = without(staged, label)
    if not staged.models and not any(_arrived(record, sizes) for record in staged.files()):
        deletion.delete_tree(folder)
        return
    kept = tuple(record.name for record in staged.files())
    for name in sizes:
        if name != MANIFEST and not name.startswith(kept):
            deletion.delete_tree(present[name])
    if staged != before:
        durable.write(folder / MANIFEST, staged.to_json().encode())


def forget(folder: Path, label: str) -> int:
    """Drop one precision's unfinished files; the bytes freed. Raises OSError."""
    try:
        staged = read(folder / MANIFEST)
    except (FileNotFoundError, ManifestError):
        return 0
    if label not in staged.models:
        return 0
    before = deletion.held_by(folder)
    durable.write(folder / MANIFEST, without(staged, label).to_json().encode())
    settle(folder)
    return before - deletion.held_by(folder)


def _unplaced(folder: Path) -> Iterator[Path]:
    """What is in a staging folder; links to files that are in their place already are deleted."""
    for path in list(folder.rglob("*")):
        if path.is_file() and durable.is_same(path, folder.parent / path.relative_to(folder)):
            path.unlink()
        else:
            yield path


def _arrived(record: FileRecord, sizes: dict[str, int]) -> bool:
    """Whether bytes of a file are here, under its name or its name and an ending.

    What ends with `.json` besides is about the bytes, not of them.
    """
    return any(
        size > 0
        and (name == record.name or (name.startswith(record.name) and not name.endswith(".json")))
        for name, size in sizes.items()
    )
