"""A model as it lies in the store: which precisions are whole, what is missing or damaged."""

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from geniex_catalogue.deletion import room_of
from geniex_catalogue.errors import GGUFError, ManifestError, ModelRefError
from geniex_catalogue.manifest import (
    HOLDER,
    INFLIGHT,
    LEDGERS,
    LOCK,
    MANIFEST,
    REMOVING,
    FileRecord,
    Format,
    Manifest,
)
from geniex_catalogue.manifest import read as read_manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.precision import preferred

Status: TypeAlias = Literal["ready", "partial", "damaged"]

# what a part's name ends with; see hubs/part.py, which is slow to load
_UNFINISHED = ".partial"
_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StoredModel:
    """What is in one model's folder.

    `precisions` are whole and can be run, best choice first; `partial` were begun and not ended.
    `size` is bytes of everything it holds, files that stay elsewhere included. `reason` says what
    is wrong, for every status but a plain "ready".
    """

    ref: ModelRef
    folder: Path
    status: Status
    precisions: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    format: Format | None = None
    size: int = 0
    reason: str | None = None
    manifest: Manifest | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """`org/repo`."""
        return self.ref.name

    def named(self, label: str) -> ModelRef:
        """What to call one precision by; the model alone where its label is no precision."""
        try:
            if label.lower().endswith(".gguf"):
                return replace(self.ref, file=label)
            return self.ref.with_precision(label)
        except ModelRefError:
            # `N/A`, the label of GenieX for bundles that state none
            return self.ref

    def path(self, record: FileRecord) -> Path:
        """Where a file of the manifest is."""
        return place_of(self.folder, record)

    def extra(self, name: str) -> FileRecord | None:
        """A whole GGUF of that name beside the precisions, such as a draft that came along."""
        if self.manifest is None:
            return None
        taken = {r.name for label in self.manifest.models for r in self.records(label)}
        for record in self.manifest.extras:
            if record.name == name and name not in taken and record.downloaded:
                return record if problem(self.folder, record) is None else None
        return None

    def companion(self, name: str) -> FileRecord | None:
        """A whole file of that name beside the precisions: a draft, or the projector."""
        projector = self.manifest.projector if self.manifest is not None else None
        if projector is not None and projector.name == name and projector.downloaded:
            return projector if problem(self.folder, projector) is None else None
        return self.extra(name)

    def has_draft(self) -> bool:
        """Whether a draft is among its files, or the heads of one in the model's own file."""
        if self.manifest is None:
            return False
        entries = [self.manifest.models[label] for label in self.precisions]
        extras = [record for record in self.manifest.extras if self.extra(record.name)]
        return any(_header_says(self.path(record), "heads") for record in entries) or any(
            _header_says(self.path(record), "draft") for record in extras
        )

    def records(self, label: str) -> tuple[FileRecord, ...]:
        """A precision's files in order, the entry point first; companions are not among them."""
        return () if self.manifest is None else records_of(self.manifest, label)


def _header_says(path: Path, what: Literal["heads", "draft"]) -> bool:
    """Whether a file is a GGUF with heads for drafts, or a draft."""
    # imported here: only a pull of drafts needs it
    from geniex_catalogue.gguf import read_header

    try:
        header = read_header(path)
    except GGUFError:
        return False
    return header.has_heads if what == "heads" else header.role == "draft"


def place_of(folder: Path, record: FileRecord) -> Path:
    """Where a file is: in the model's folder, or where the user has it."""
    return record.place or folder.joinpath(*record.name.split("/"))


def records_of(manifest: Manifest, label: str) -> tuple[FileRecord, ...]:
    """The files of one precision in order, the entry point first.

    Where the extra files do not say whose they are (caches of GenieX), names tell shards; all files
    of a qairt bundle belong together.
    """
    entry = manifest.models[label]
    if manifest.format == "qairt":
        foreign = {record.name for record in manifest.models.values()}
        others = (record for record in manifest.files() if record.name not in foreign)
        return (entry, *(other for other in others if other.precision in (None, label)))
    shards = [record for record in manifest.extras if record.precision == label]
    if not shards and (found := _SHARD.search(entry.name)):
        stem, count = entry.name[: found.start()], found.group(1)
        shards = [
            record
            for record in manifest.extras
            if (other := _SHARD.search(record.name))
            and record.name[: other.start()] == stem
            and other.group(1) == count
        ]
    return tuple(sorted({entry, *shards}, key=lambda record: (record != entry, record.name)))


def without(manifest: Manifest, label: str) -> Manifest:
    """A manifest without one precision and the files that no other one uses."""
    models = {key: record for key, record in manifest.models.items() if key != label}
    gone = {record.name for record in records_of(manifest, label)}
    for other in models:
        gone -= {record.name for record in records_of(manifest, other)}
    extras = tuple(record for record in manifest.extras if record.name not in gone)
    return replace(manifest, models=models, extras=extras)


def inspect(ref: ModelRef, folder: Path) -> StoredModel | None:
    """What a folder holds, never an error for what is in it; None when there is nothing."""
    try:
        return _inspect(ref, folder)
    except OSError as exc:
        reason = f"`{folder}` cannot be read: {exc.strerror or exc}"
        return StoredModel(ref, folder, "damaged", reason=reason)


def _inspect(ref: ModelRef, folder: Path) -> StoredModel | None:
    size = size_of(folder)
    staged = (folder / INFLIGHT).is_dir()
    try:
        manifest = read_manifest(folder / MANIFEST)
    except FileNotFoundError:
        if staged:
            return _only_staged(ref, folder, size)
        if (folder / REMOVING).is_file():
            reason = "it is being removed, or its removal did not finish"
            return StoredModel(ref, folder, "damaged", size=size, reason=reason)
        if size == 0:
            return None
        return StoredModel(ref, folder, "damaged", size=size, reason=f"`{MANIFEST}` is missing")
    except ManifestError as exc:
        return StoredModel(ref, folder, "damaged", size=size, reason=exc.message)
    return _inspect_manifest(ref, folder, manifest, size, staged)


def _inspect_manifest(
    ref: ModelRef, folder: Path, manifest: Manifest, size: int, staged: bool
) -> StoredModel:
    whole, partial, problems = [], [], []
    for label in manifest.models:
        records = records_of(manifest, label)
        found = [text for record in records if (text := problem(folder, record))]
        if not all(record.downloaded for record in records):
            if any(record.downloaded for record in records):
                partial.append(label)
        elif found:
            problems += found
        else:
            whole.append(label)
    if staged:
        partial += [label for label in _staged_labels(folder) if label not in whole]
    problems = list(dict.fromkeys(problems))
    if not whole and not problems and not partial:
        problems = ["it has no model file"]
    status: Status = "ready" if whole else "damaged" if problems else "partial"
    if partial:
        problems.append(f"not fully downloaded: {', '.join(partial)}")
    elif staged:
        problems.append("a pull did not finish")
    elsewhere = sum(record.size for record in manifest.files() if _is_elsewhere(folder, record))
    return StoredModel(
        ref,
        folder,
        status,
        tuple(preferred(whole)),
        tuple(partial),
        manifest.format,
        size + elsewhere,
        "; ".join(problems) or None,
        manifest,
    )


def _only_staged(ref: ModelRef, folder: Path, size: int) -> StoredModel:
    labels = _staged_labels(folder)
    what = f"not fully downloaded: {', '.join(labels)}" if labels else "a pull did not finish"
    return StoredModel(ref, folder, "partial", partial=labels, size=size, reason=what)


def _staged_labels(folder: Path) -> tuple[str, ...]:
    """The precisions that an unfinished pull is about, as far as it left word."""
    try:
        return tuple(read_manifest(folder / INFLIGHT / MANIFEST).models)
    except (FileNotFoundError, ManifestError):
        return ()


def problem(folder: Path, record: FileRecord) -> str | None:
    """What is wrong with a file that should be there; None when it is as it should be.

    The file itself may be a link that leads anywhere: only the user makes those (zips and imports
    bring none), to keep a big file on another disk. Its folder must be in the model's.
    """
    path = place_of(folder, record)
    try:
        if record.place is None and not path.parent.resolve().is_relative_to(folder.resolve()):
            return f"`{record.name}` leads out of the model's folder"
        size = path.stat().st_size
        is_file = path.is_file()
    except FileNotFoundError:
        if record.place is not None:
            return f"`{path}` is gone (it was imported in place)"
        return f"`{record.name}` is missing"
    except UnicodeEncodeError as exc:
        return f"`{record.name}` cannot be named in this locale, whose encoding is {exc.encoding}"
    except (OSError, RuntimeError, ValueError) as exc:
        return f"`{record.name}` cannot be read: {exc}"
    if not is_file:
        return f"`{record.name}` is not a file"
    if record.size and size != record.size:
        return f"`{record.name}` has {size} bytes, {record.size} expected"
    return None


def _is_elsewhere(folder: Path, record: FileRecord) -> bool:
    return record.place is not None or place_of(folder, record).is_symlink()


def size_of(folder: Path) -> int:
    """Bytes of the files in a model's folder besides lock and manifest; links count nothing."""
    total = 0
    for base, folders, names in os.walk(folder):
        if LEDGERS in folders:
            folders.remove(LEDGERS)
        for name in names:
            if name not in (LOCK, HOLDER, MANIFEST):
                with suppress(FileNotFoundError):
                    path = Path(base, name)
                    found = path.lstat()
                    total += 0 if stat.S_ISLNK(found.st_mode) else _room_of(path, found)
    return total


def _room_of(path: Path, found: os.stat_result) -> int:
    """Bytes of a file; of the part of one, which has holes, those that have arrived."""
    if path.suffix != _UNFINISHED:
        return found.st_size
    # imported here: only unfinished models need it
    from geniex_catalogue.hubs.part import arrived

    return room_of(found) if hasattr(found, "st_blocks") else arrived(path)
