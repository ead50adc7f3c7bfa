"""Models on disk: listed, published as a whole, removed, checked."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from geniex_catalogue import deletion, durable, publishing, removing, staging
from geniex_catalogue.errors import ModelNotFoundError, ModelRefError, StoreError
from geniex_catalogue.manifest import (
    INFLIGHT,
    MANIFEST,
    Manifest,
)
from geniex_catalogue.model_lock import OnWait, hold, unwritable
from geniex_catalogue.names import ModelRef, org_spelling
from geniex_catalogue.precision import require
from geniex_catalogue.stored import (
    StoredModel,
    inspect,
    without,
)

if TYPE_CHECKING:
    from geniex_catalogue.verification import Report

# seconds to wait for files to be in their place, or gone, so as not to read some of them
_SOON = 2.0

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
                if model := self._look_at(ModelRef(folder.parent.name, folder.name), folder):
                    found.append(model)
        # an org may have another spelling on disk
        return sorted(found, key=lambda model: (model.ref.org, model.ref.repo))

    def find(self, ref: ModelRef) -> StoredModel | None:
        """The model of that name, whatever its state; None when there is nothing of it."""
        folder = self._existing(ref)
        if folder is None:
            return None
        return self._look_at(ModelRef(folder.parent.name, folder.name), folder)

    def _look_at(self, ref: ModelRef, folder: Path) -> StoredModel | None:
        if publishing.is_moving(folder) or removing.is_removing(folder):
            # who is at it now will be done soon; one that was stopped never
            with suppress(StoreError), self.lock(ref, timeout=_SOON):
                pass
        return inspect(ref, folder)

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
                    _finish_what_was_begun(folder)
                    yield
                finally:
                    deletion.drop_if_empty(folder)
        finally:
            # Windows gives up a lock's file only after the lock
            deletion.drop_folders(folder)

    def stage(self, ref: ModelRef, manifest: Manifest) -> Path:
        """Say what is about to come, and give the folder for its unfinished files.

        Call it under `lock`. Until `publish` or `unstage`, the model shows as partial. The files
        of earlier tries are still there. Raises StoreError, also where the model is there in
        another format.
        """
        folder = self.folder(ref)
        inflight = folder / INFLIGHT
        there = publishing.read_or_none(folder / MANIFEST)
        if there is not None and there.models:
            publishing.require_same_kind(there, manifest)
        earlier = publishing.read_or_none(inflight / MANIFEST)
        staged = publishing.merge(earlier, manifest) if earlier is not None else manifest
        try:
            inflight.mkdir(parents=True, exist_ok=True)
            durable.write(inflight / MANIFEST, staged.to_json().encode())
        except OSError as exc:
            # without word of what comes it would show as partial; rmdir takes no files
            with suppress(OSError):
                inflight.rmdir()
            raise unwritable(inflight, exc) from exc
        return inflight

    def unstage(self, ref: ModelRef) -> None:
        """Forget what was staged and of which nothing has arrived. Call it under `lock`.

        It never raises: the error that led here is the one to tell. What cannot be tidied now, as
        on a full disk, the next who takes the lock tidies.
        """
        _tidy(self.folder(ref))

    def publish(
        self, ref: ModelRef, manifest: Manifest, staged: Mapping[str, Path] | None = None
    ) -> StoredModel:
        """Put a model's new files in place, then its manifest, merged with what is there.

        Call it under `lock`, after `stage`. `staged` maps file names of the manifest to the
        finished files in the staging folder; files that are not in it must be in place already.
        Whenever it is stopped, the model is as it was, and partial, or the next who takes the lock
        ends what was begun. Files that the new ones replace are deleted last. Where it fails, new
        files go back to where they were staged. Raises StoreError.
        """
        folder = self.folder(ref)
        try:
            publishing.publish(folder, manifest, staged or {})
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
                return removing.remove(model.folder, inflight=True)
            return self._remove_precision(model, ref)

    def clean(self, on_wait: OnWait | None = None) -> tuple[int, int]:
        """Remove all models, partial and damaged ones too: how many, and the bytes freed.

        Where one cannot be removed, the others are all the same; then its error is raised.
        """
        count = freed = 0
        failure: StoreError | None = None
        for model in self.list():
            try:
                freed += self.remove(model.ref, on_wait)
                count += 1
            except ModelNotFoundError:
                continue
            except StoreError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure
        return count, freed

    def discard_partial(self, ref: ModelRef, timeout: float | None = None) -> int:
        """Delete what has not arrived whole of a model; the bytes freed.

        Raises StoreBusyError where another process holds the model for `timeout` seconds (it may
        be fetching just that), StoreError.
        """
        folder = self._existing(ref)
        if folder is None or not (folder / INFLIGHT).is_dir():
            return 0
        self._refuse_outside(folder)
        with self.lock(ref, timeout=timeout):
            try:
                inflight = folder / INFLIGHT
                return deletion.delete_tree(inflight) if inflight.exists() else 0
            except OSError as exc:
                raise unwritable(folder, exc) from exc

    def check(self, ref: ModelRef, progress: Callable[[str, int], None] | None = None) -> "Report":
        """Read all files of a model; see `verification.check`. Raises ModelNotFoundError.

        Where another process has changed the model meanwhile, what is there then is read.
        """
        # imported here: only a check needs it, and every command would pay
        from geniex_catalogue.verification import check

        model = self.find(ref)
        while model is not None:
            report = check(model, progress)
            now = self.find(ref) if report.faults else model
            if now is not None and now.manifest == model.manifest and now.status == model.status:
                return report
            model = now
        raise ModelNotFoundError(str(ref), hint="it is not here, or was removed meanwhile")

    def verify(
        self, ref: ModelRef, progress: Callable[[str, int], None] | None = None
    ) -> tuple[str, ...]:
        """Read all files of a model and name what is wrong with them; as `check`."""
        return tuple(fault.reason for fault in self.check(ref, progress).faults)

    def _existing(self, ref: ModelRef) -> Path | None:
        """The model's folder as it is spelled on disk: the same name, else another spelling."""
        for org in _spelled(self.models, ref.org, org_spelling):
            for repo in _spelled(org, ref.repo, str.lower):
                return repo
        return None

    def _remove_precision(self, model: StoredModel, ref: ModelRef) -> int:
        """Remove the precision that `ref` selects; a partial one too."""
        if model.status == "damaged" and model.manifest is None:
            raise StoreError(
                f"`{model.name}` is damaged: {model.reason}",
                hint=f"remove all of it with `geniex remove {model.name}`",
            )
        label = _label_of(model, ref)
        try:
            freed = staging.forget(model.folder / INFLIGHT, label)
            if model.manifest is None or label not in model.manifest.models:
                return freed
            smaller = without(model.manifest, label)
            if not smaller.models:
                return freed + removing.remove(model.folder, inflight=False)
            # first the word, then the bytes: a crash between leaves a stray file, not a lie
            durable.write(model.folder / MANIFEST, smaller.to_json().encode())
            return freed + publishing.delete_unlisted(model.folder, model.manifest, smaller)
        except OSError as exc:
            raise unwritable(model.folder, exc) from exc

    def _forget_link(self, folder: Path) -> int:
        """A model's folder that is a link: the link goes, what it points to stays."""
        try:
            folder.unlink()
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        deletion.drop_folders(folder)
        return 0

    def _refuse_outside(self, folder: Path) -> None:
        if not folder.resolve().is_relative_to(self.models.resolve()):
            raise StoreError(
                f"`{folder}` leads out of the store, to `{folder.resolve()}`",
                hint="remove it there yourself, and the link in the store",
            )


def _tidy(folder: Path) -> None:
    """Forget what was staged and never came; a disk that refuses that now is asked again later."""
    with suppress(OSError):
        staging.settle(folder / INFLIGHT)


def _finish_what_was_begun(folder: Path) -> None:
    """Do to its end what another process had begun when it was stopped."""
    durable.drop_leftovers(folder)
    durable.drop_leftovers(folder / INFLIGHT)
    _tidy(folder)
    try:
        if publishing.is_moving(folder):
            publishing.finish(folder)
        if removing.is_removing(folder):
            removing.finish(folder)
    except OSError as exc:
        raise unwritable(folder, exc) from exc


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
            return sorted(folder / entry.name for entry in entries if _is_folder(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise StoreError(
            f"the data folder cannot be read at `{folder}`: {exc.strerror or exc}",
            hint="check its permissions, or choose another with `--data-dir`",
        ) from exc


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a folder; a link that leads to itself is none, and hides no other."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _spelled(folder: Path, name: str, common: Callable[[str], str]) -> list[Path]:
    """The folders that `name` means, by what spellings have in common: the very name first."""
    same = [found for found in _folders(folder) if common(found.name) == common(name)]
    return sorted(same, key=lambda found: found.name != name)
