"""Bringing local files into the store: copied, hard-linked or unpacked, then published."""

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from geniex_catalogue.errors import DiskSpaceError, GenieXError, StoreError, UsageError
from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.model_lock import OnWait
from geniex_catalogue.names import ModelRef
from geniex_catalogue.publishing import is_moving
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel

# file names of a manifest -> where those files are now
Sources: TypeAlias = Mapping[str, Path]
# brings the file of that name to that path, telling the bytes written
Put: TypeAlias = Callable[[str, Path, Callable[[int], None]], None]
# looks at a folder, and raises what is wrong with it
Check: TypeAlias = Callable[[Path], None]

_BLOCK = 16 << 20
# what the manifest and the lock may take besides the files
_MARGIN = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
_NO_CLONES = (*_NO_LINKS, errno.EINVAL, errno.EBADF)


def place(
    ref: ModelRef,
    store: Store,
    manifest: Manifest,
    put: Put,
    progress: Progress | None = None,
    on_wait: OnWait | None = None,
    *,
    copies: bool = True,
    check: Check | None = None,
) -> StoredModel:
    """Bring all files of a manifest into the store and publish them.

    Whatever stops it, nothing half-done is left. `copies`: the files take room of their own.
    `check` is given their folder when all are there; what it raises stops it.
    Raises DiskSpaceError before anything is written, StoreError, UsageError.
    """
    with store.lock(ref, on_wait):
        if copies:
            _require_room(store.folder(ref), sum(record.size for record in manifest.files()))
        folder = store.stage(ref, manifest)
        staged = {r.name: folder.joinpath(*r.name.split("/")) for r in manifest.files()}
        try:
            for record in manifest.files():
                _put_one(put, record, staged[record.name], progress)
            if check is not None:
                check(folder)
            return store.publish(ref, manifest, staged)
        except BaseException:
            for path in () if is_moving(folder.parent) else staged.values():
                # what cannot be removed (a name too long) was not made either
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            store.unstage(ref)
            raise


def _put_one(put: Put, record: FileRecord, target: Path, progress: Progress | None) -> None:
    def advance(count: int) -> None:
        if progress is not None:
            progress.advance(record.name, count)

    if progress is not None:
        progress.start(record.name, record.size, 0)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        put(record.name, target, advance)
    except OSError as exc:
        raise _failure(record, target, exc) from exc
    if progress is not None:
        progress.finish(record.name)


def _failure(record: FileRecord, target: Path, exc: OSError) -> GenieXError:
    if exc.errno in _FULL:
        return DiskSpaceError(
            str(target.parent), record.size, shutil.disk_usage(target.parent).free
        )
    return StoreError(
        f"`{record.name}` cannot be brought to `{target.parent}`: {exc.strerror or exc}",
        hint="check the permissions of both places",
    )


def _require_room(folder: Path, needed: int) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as exc:
        raise StoreError(f"`{folder}` cannot be read: {exc.strerror or exc}") from exc
    if needed + _MARGIN > free:
        raise DiskSpaceError(str(folder), needed + _MARGIN, free)


def copied(sources: Sources) -> Put:
    """Copies; on filesystems that can, the copy shares its blocks with the original."""

    def put(name: str, target: Path, advance: Callable[[int], None]) -> None:
        with sources[name].open("rb", buffering=0) as source, target.open("wb") as out:
            if _copied_by_kernel(source.fileno(), out.fileno(), advance):
                return
            while block := source.read(_BLOCK):
                out.write(block)
                advance(len(block))

    return put


def _copied_by_kernel(source: int, target: int, advance: Callable[[int], None]) -> bool:
    """Let the kernel copy what is left of a file; False where it cannot (then nothing is lost)."""
    copy = getattr(os, "copy_file_range", None)
    while copy is not None:
        try:
            count = copy(source, target, _BLOCK)
        except OSError as exc:
            if exc.errno in _NO_CLONES:
                return False
            raise
        if count == 0:
            return True
        advance(count)
    return False


def linked(sources: Sources) -> Put:
    """Hard links to the files themselves, not to links that lead to them."""

    def put(name: str, target: Path, advance: Callable[[int], None]) -> None:
        source = sources[name].resolve()
        try:
            target.hardlink_to(source)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            raise UsageError(
                f"`{sources[name]}` cannot be hard-linked into `{target.parent}`: "
                f"{exc.strerror or exc}",
                hint="leave out `--link` to copy it, or use `--in-place`",
            ) from exc
        advance(target.stat().st_size)

    return put
