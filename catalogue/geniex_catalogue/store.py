"""Models on disk: listed, published as a whole, removed, checked."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from geniex_catalogue import durable
from geniex_catalogue.errors import ManifestError, ModelNotFoundError, ModelRefError, StoreError
from geniex_catalogue.manifest import (
    HOLDER,
    INFLIGHT,
    LOCK,
    MANIFEST,
    FileRecord,
    Manifest,
    check_file_name,
)
from geniex_catalogue.manifest import read as read_manifest
from geniex_catalogue.model_lock import OnWait, hold, unwritable
from geniex_catalogue.names import ModelRef
from geniex_catalogue.precision import require
from geniex_catalogue.stored import (
    StoredModel,
    inspect,
    place_of,
    problem,
    records_of,
    size_of,
)

StoredModels: TypeAlias = list[StoredModel]


class Store:
    """The models under `root` (the data folder): `root/models/<org>/<repo>/`.

    Reading needs no lock: what is published is whole. Every change is made under `lock`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.models = root / "models"

    def folder(self, ref: ModelRef) -> Path:
        """Where a model is or would be; a folder that differs only by case is its folder too."""
        return self._existing(ref) or self.models / ref.org / ref.repo

    def list(self) -> StoredModels:
        """All models, by name; partial and damaged ones too. Raises StoreError."""
        found = []
        for folder in (folder for org in _folders(self.models) for folder in _folders(org)):
            # a folder whose name is no model's was not put there by geniex
            with suppress(ModelRefError):
                if model := inspect(ModelRef(folder.parent.name, folder.name), folder):
                    found.append(model)
        return found

    def find(self, ref: ModelRef) -> StoredModel | None:
        """The model of that name, whatever its state; None when there is nothing of it."""
        folder = self._existing(ref)
        if folder is None:
            return None
        return inspect(ModelRef(folder.parent.name, folder.name), folder)

    @contextmanager
    def lock(
        self, ref: ModelRef, on_wait: OnWait | None = None, timeout: float | None = None
    ) -> Iterator[None]:
        """Hold a model against other processes; makes its folder, and leaves none if unused.

        `on_wait` is told once before waiting, with the holder's process id where known; `timeout`
        is seconds (None: no limit). Raises StoreBusyError, StoreError.
        """
        folder = self.folder(ref)
        try:
            with hold(folder, on_wait, timeout):
                try:
                    yield
                finally:
                    _drop_if_empty(folder)
        finally:
            # Windows gives up a lock's file only after the lock
            _drop_folders(folder)

    def stage(self, ref: ModelRef, manifest: Manifest) -> Path:
        """Say what is about to come, and give the folder for its unfinished files.

        Call it under `lock`. Until `publish` or `unstage`, the model shows as partial. The files
        of an earlier try are still there. Raises StoreError.
        """
        staging = self.folder(ref) / INFLIGHT
        try:
            staging.mkdir(parents=True, exist_ok=True)
            durable.write(staging / MANIFEST, manifest.to_json().encode())
        except OSError as exc:
            raise unwritable(staging, exc) from exc
        return staging

    def unstage(self, ref: ModelRef) -> None:
        """Throw away what `stage` began; what is published stays."""
        staging = self.folder(ref) / INFLIGHT
        try:
            _delete_tree(staging)
        except OSError as exc:
            raise unwritable(staging, exc) from exc

    def publish(
        self, ref: ModelRef, manifest: Manifest, staged: Mapping[str, Path] | None = None
    ) -> StoredModel:
        """Put a model's new files in place, then its manifest, merged with what is there.

        Call it under `lock`. `staged` maps file names of the manifest to the finished files, on the
        store's filesystem; files that are not in it must be in place already. A crash before the
        end leaves the model as it was, and partial. Raises StoreError.
        """
        folder = self.folder(ref)
        for record in manifest.files():
            check_file_name(record.name)
        try:
            for name, path in (staged or {}).items():
                durable.move(path, folder.joinpath(*name.split("/")))
            self._require_whole(folder, manifest)
            for inner in {folder.joinpath(*r.name.split("/")).parent for r in manifest.files()}:
                durable.sync_folder(inner)
            merged = self._merged(folder, manifest)
            durable.write(folder / MANIFEST, merged.to_json().encode())
            _delete_tree(folder / INFLIGHT)
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        model = inspect(ModelRef(folder.parent.name, folder.name), folder)
        if model is None:
            raise StoreError(f"`{folder}` vanished while it was published")
        return model

    def remove(self, ref: ModelRef, on_wait: OnWait | None = None) -> int:
        """Remove a model, or the one precision (or file) that `ref` selects; give the bytes freed.

        Files that another precision uses stay; so do files imported in place. Raises
        ModelNotFoundError, PrecisionNotFoundError, StoreError.
        """
        model = self.find(ref)
        if model is None:
            raise ModelNotFoundError(str(ref), [m.name for m in self.list()][:3])
        if model.folder.is_symlink():
            return self._forget_link(model.folder)
        self._refuse_outside(model.folder)
        with self.lock(model.ref, on_wait):
            # another process may have changed it while we waited
            model = self.find(ref)
            if model is None:
                return 0
            if ref.selector is None:
                return self._delete(model.folder, keep=(LOCK, HOLDER))
            return self._remove_precision(model, ref)

    def clean(self, on_wait: OnWait | None = None) -> tuple[int, int]:
        """Remove all models, partial and damaged ones too: how many, and the bytes freed."""
        count = freed = 0
        for model in self.list():
            with suppress(ModelNotFoundError):
                freed += self.remove(model.ref, on_wait)
                count += 1
        return count, freed

    def verify(
        self, ref: ModelRef, progress: Callable[[str, int], None] | None = None
    ) -> tuple[str, ...]:
        """Read all files of a model and name what is wrong with them, by size and known sha256.

        `progress` is told the file and the bytes just read. Raises ModelNotFoundError.
        """
        model = self.find(ref)
        if model is None:
            raise ModelNotFoundError(str(ref))
        if model.manifest is None:
            return (model.reason or "it is damaged",)
        found = []
        for record in model.manifest.files():
            if not record.downloaded:
                continue
            text = problem(model.folder, record)
            if text is None and record.sha256 is not None:
                digest = _sha256(model.path(record), progress)
                if digest != record.sha256.lower():
                    text = f"`{record.name}` has the sha256 {digest}, {record.sha256} expected"
            if text is not None:
                found.append(text)
        return tuple(found)

    def _existing(self, ref: ModelRef) -> Path | None:
        """The model's folder as it is spelled on disk: the same name, else one of another case."""
        found = self.models
        for part in (ref.org, ref.repo):
            names = [folder.name for folder in _folders(found)]
            same = [name for name in names if name == part]
            near = same or [name for name in names if name.lower() == part.lower()]
            if not near:
                return None
            found /= near[0]
        return found

    def _merged(self, folder: Path, manifest: Manifest) -> Manifest:
        try:
            return read_manifest(folder / MANIFEST).merged(manifest)
        except (FileNotFoundError, ManifestError):
            # none yet, or a damaged one, which the new one replaces
            return manifest

    def _require_whole(self, folder: Path, manifest: Manifest) -> None:
        for record in manifest.files():
            if record.downloaded and (text := problem(folder, record)):
                raise StoreError(f"`{manifest.name}` cannot be published: {text}")

    def _remove_precision(self, model: StoredModel, ref: ModelRef) -> int:
        """Remove the precision that `ref` selects; a partial one too."""
        if model.status == "damaged" and model.manifest is None:
            raise StoreError(
                f"`{model.name}` is damaged: {model.reason}",
                hint=f"remove all of it with `geniex remove {model.name}`",
            )
        label = _label_of(model, ref)
        freed = 0
        if label in model.partial:
            freed += self._delete(model.folder / INFLIGHT)
        if model.manifest is None or label not in model.manifest.models:
            return freed
        left = {key: record for key, record in model.manifest.models.items() if key != label}
        if not left:
            return freed + self._delete(model.folder, keep=(LOCK, HOLDER, INFLIGHT))
        return freed + self._shrink(model.folder, model.manifest, label, left)

    def _shrink(
        self, folder: Path, manifest: Manifest, label: str, left: Mapping[str, FileRecord]
    ) -> int:
        """Take one precision out of a manifest, and its files out of the folder."""
        gone = {record.name for record in records_of(manifest, label)}
        for other in left:
            gone -= {record.name for record in records_of(manifest, other)}
        extras = tuple(record for record in manifest.extras if record.name not in gone)
        smaller = replace(manifest, models=left, extras=extras)
        freed = 0
        try:
            # first the word, then the bytes: a crash between leaves a stray file, not a lie
            durable.write(folder / MANIFEST, smaller.to_json().encode())
            for record in manifest.files():
                if record.name in gone and record.place is None:
                    freed += _delete_file(folder, place_of(folder, record))
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        return freed

    def _delete(self, folder: Path, keep: tuple[str, ...] = ()) -> int:
        """Delete what is in a model's folder, the manifest first."""
        freed = 0
        try:
            # without its manifest the rest is no model any more, should we be stopped
            for path in sorted(folder.iterdir(), key=lambda path: path.name != MANIFEST):
                if path.name not in keep:
                    freed += _delete_tree(path)
            if not keep:
                folder.rmdir()
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        return freed

    def _forget_link(self, folder: Path) -> int:
        """A model's folder that is a link: the link goes, what it points to stays."""
        try:
            folder.unlink()
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        _drop_folders(folder)
        return 0

    def _refuse_outside(self, folder: Path) -> None:
        if not folder.resolve().is_relative_to(self.models.resolve()):
            raise StoreError(
                f"`{folder}` leads out of the store, to `{folder.resolve()}`",
                hint="remove it there yourself, and the link in the store",
            )


def _label_of(model: StoredModel, ref: ModelRef) -> str:
    """The precision that a selector means. Raises PrecisionNotFoundError."""
    labels = list(model.manifest.models) if model.manifest else []
    for label in labels:
        if ref.file is not None and ref.file in {r.name for r in model.records(label)}:
            return label
    return require(model.name, ref.selector or "", [*labels, *model.partial])


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, by name; none when it is not there."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise StoreError(
            f"the data folder cannot be read at `{folder}`: {exc.strerror or exc}",
            hint="check its permissions, or choose another with `--data-dir`",
        ) from exc


def _drop_if_empty(folder: Path) -> None:
    """Remove a model's folder that holds nothing but its lock; call it under the lock."""
    # what cannot be removed is empty, and shows as nothing
    with suppress(OSError):
        if {path.name for path in folder.iterdir()} <= {LOCK, HOLDER}:
            for name in (HOLDER, LOCK):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()


def _drop_folders(folder: Path) -> None:
    """Remove a model's and an organisation's folder where they are empty."""
    # rmdir takes nothing that is in use
    for empty in (folder, folder.parent):
        with suppress(OSError):
            empty.rmdir()


def _delete_tree(path: Path) -> int:
    """Delete a file, a link (not what it points to) or a folder; the bytes freed."""
    if path.is_symlink() or not path.is_dir():
        return _unlink(path)
    freed = size_of(path)
    shutil.rmtree(path)
    return freed


def _unlink(path: Path) -> int:
    try:
        found = path.lstat()
        path.unlink()
    except FileNotFoundError:
        return 0
    # a hard link's bytes stay where the other name is
    return found.st_size if found.st_nlink == 1 else 0


def _delete_file(folder: Path, path: Path) -> int:
    """Delete one of a model's files, and the folders that it leaves empty."""
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        return 0
    freed = _unlink(path)
    for parent in path.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()
    return freed


def _sha256(path: Path, progress: Callable[[str, int], None] | None) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            if progress is not None:
                progress(path.name, len(piece))
    return digest.hexdigest()
