"""Putting finished files into a model's folder: all of them or none, whenever it is stopped.

Once all files are here, a journal says where each goes. From then on the new files are the model's:
who changes the model next does what is left of it. The manifest is written last.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from geniex_catalogue import deletion, durable, ledgers, staging
from geniex_catalogue.errors import ManifestError, StoreError
from geniex_catalogue.manifest import (
    INFLIGHT,
    JOURNAL,
    MANIFEST,
    MAX_BYTES,
    Manifest,
    check_file_name,
)
from geniex_catalogue.manifest import parse as parse_manifest
from geniex_catalogue.manifest import read as read_manifest
from geniex_catalogue.regular import read_regular
from geniex_catalogue.stored import place_of, problem, without


def publish(folder: Path, manifest: Manifest, staged: Mapping[str, Path]) -> None:
    """Move files to their place, then write the manifest, merged with what is there.

    Files that the new ones replace are deleted last. Raises StoreError, ManifestError, OSError.
    """
    for record in manifest.files():
        check_file_name(record.name)
    there = read_or_none(folder / MANIFEST)
    merged = merge(there, manifest) if there is not None else manifest
    _require_whole(folder, manifest, staged)
    _note(folder, merged, staged)
    with _undone_where_possible(folder, staged):
        finish(folder)
    if there is not None:
        delete_unlisted(folder, there, merged)


def is_moving(folder: Path) -> bool:
    """Whether somebody was stopped while files were moved to their place (or is at it now)."""
    return (folder / INFLIGHT / JOURNAL).is_file()


def finish(folder: Path) -> None:
    """Do what the journal says, from wherever it stopped. Call it under the model's lock.

    A damaged journal was never acted upon, and goes. Raises OSError.
    """
    journal = folder / INFLIGHT / JOURNAL
    try:
        document = json.loads(read_regular(journal, MAX_BYTES * 2))
        manifest = parse_manifest(json.dumps(document["manifest"]).encode())
        moves = {check_file_name(new): check_file_name(old) for new, old in document["moves"]}
    except (ValueError, LookupError, TypeError, RecursionError, ManifestError):
        journal.unlink(missing_ok=True)
        return
    for new, old in moves.items():
        source = folder / INFLIGHT / old
        # what is not there any more was moved before
        if source.is_file():
            durable.move(source, folder / new)
    _settle_names(folder, manifest)
    durable.write(folder / MANIFEST, manifest.to_json().encode())
    journal.unlink(missing_ok=True)
    staging.settle(folder / INFLIGHT)


def read_or_none(path: Path) -> Manifest | None:
    """The manifest in a file; None for none, and for a damaged one, which a new one replaces."""
    try:
        return read_manifest(path)
    except (FileNotFoundError, ManifestError):
        return None


def require_same_kind(there: Manifest, newer: Manifest) -> None:
    """Refuse two formats, or two bundles, in one folder: their files would mix."""
    bundle = "qairt" in (there.format, newer.format)
    if bundle and (there.format != newer.format or set(there.models) != set(newer.models)):
        raise StoreError(
            f"`{newer.name}` is already here, as {there.format} {', '.join(there.models)}",
            hint=f"`geniex remove {newer.name}` first, or import it under another name",
        )


def merge(there: Manifest, newer: Manifest) -> Manifest:
    """What is there and not replaced, and the new."""
    for label in newer.models:
        if label in there.models:
            there = without(there, label)
    return there.merged(newer)


def delete_unlisted(folder: Path, older: Manifest, newer: Manifest) -> int:
    """Delete the files that one manifest lists and the next one does not; the bytes freed."""
    # two spellings may be one file
    kept = {record.name.lower() for record in newer.files() if record.place is None}
    gone = [r for r in older.files() if r.place is None and r.name.lower() not in kept]
    for record in gone:
        ledgers.drop(folder, record.name)
    return sum(deletion.delete_file(folder, place_of(folder, record)) for record in gone)


def _replaces(path: Path, target: Path) -> bool:
    return target.exists() and not durable.is_same(path, target)


def _note(folder: Path, merged: Manifest, staged: Mapping[str, Path]) -> None:
    """Write the journal: from then on the new files are the model's."""
    inflight = folder / INFLIGHT
    moves = [(name, path.relative_to(inflight).as_posix()) for name, path in staged.items()]
    for path in staged.values():
        durable.settle(path)
    document = {"manifest": json.loads(merged.to_json()), "moves": moves}
    durable.write(inflight / JOURNAL, json.dumps(document).encode())


def _settle_names(folder: Path, manifest: Manifest) -> None:
    """Make the names of all files last; folders that are not there have none."""
    for inner in {place_of(folder, r).parent for r in manifest.files() if not r.place}:
        durable.sync_folder(inner)


@contextmanager
def _undone_where_possible(folder: Path, staged: Mapping[str, Path]) -> Iterator[None]:
    """Move files back where that fails, as long as the old model is whole without them."""
    places = {folder.joinpath(*name.split("/")): path for name, path in staged.items()}
    replaces = any(_replaces(path, target) for target, path in places.items())
    before = _identity(folder / MANIFEST)
    try:
        yield
    except BaseException:
        if not replaces and _identity(folder / MANIFEST) == before:
            _undo(folder, places)
        raise


def _undo(folder: Path, places: Mapping[Path, Path]) -> None:
    """Files go back from their places; what cannot be undone is ended by the next one."""
    # the first error is the one to tell
    with suppress(OSError):
        (folder / INFLIGHT / JOURNAL).unlink(missing_ok=True)
        for target, path in places.items():
            if target.exists() and not path.exists():
                target.replace(path)


def _identity(path: Path) -> int | None:
    """What changes when a file is replaced; None without one."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _require_whole(folder: Path, manifest: Manifest, staged: Mapping[str, Path]) -> None:
    """Refuse what did not arrive whole; `staged` are files that are not in their place yet."""
    for record in manifest.files():
        path = staged.get(record.name)
        text = None
        if path is None:
            text = problem(folder, record) if record.downloaded else None
        elif record.size and path.stat().st_size != record.size:
            text = f"`{record.name}` has {path.stat().st_size} bytes, {record.size} expected"
        if text is not None:
            raise StoreError(f"`{manifest.name}` cannot be published: {text}")
