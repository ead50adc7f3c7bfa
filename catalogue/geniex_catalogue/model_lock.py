"""One holder per model across processes: the lock of a model's folder."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from geniex_catalogue.durable import FULL
from geniex_catalogue.errors import DiskSpaceError, StoreBusyError, StoreError
from geniex_catalogue.manifest import HOLDER, LOCK
from geniex_catalogue.regular import read_regular

if TYPE_CHECKING:
    from filelock import BaseFileLock


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a model: a process id, and since when (seconds of the epoch)."""

    pid: int
    since: float

    def __str__(self) -> str:
        begun = time.localtime(self.since)
        today = begun[:3] == time.localtime()[:3]
        when = time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M", begun)
        return f"process {self.pid} (since {when})"


# told once, before waiting, with the holder where it is known
OnWait: TypeAlias = Callable[[Holder | None], None]

_POLL = 0.1
# what the store's own small files may take
_MARGIN = 1 << 20
# how often a folder may vanish under us before we believe that it cannot be
_VANISHED = 50


@contextmanager
def hold(
    folder: Path, on_wait: OnWait | None = None, timeout: float | None = None
) -> Iterator[None]:
    """Hold a model's folder, made if needed, against all other processes and threads.

    A holder that died holds nothing. `timeout` is seconds, None waits as long as it takes. Raises
    StoreBusyError after `timeout`, StoreError when the folder cannot be written.
    """
    lock = _acquire(folder, on_wait, timeout)
    try:
        _note_holder(folder)
        yield
    finally:
        # the folder may be gone by now: a removal ends like this
        with suppress(OSError):
            (folder / HOLDER).unlink()
        lock.release()


def _acquire(folder: Path, on_wait: OnWait | None, timeout: float | None) -> "BaseFileLock":
    from filelock import FileLock, Timeout

    end = None if timeout is None else time.monotonic() + timeout
    told, vanished = False, 0
    while True:
        # thread_local: a lock belongs to its with-statement, whichever thread leaves it
        lock = FileLock(folder / LOCK, thread_local=False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
            return lock
        except Timeout as exc:
            holder = holder_of(folder)
            if end is not None and time.monotonic() >= end:
                raise _busy(folder, holder) from exc
        except (FileNotFoundError, FileExistsError) as exc:
            # the last holder removed the folder between our two steps
            vanished += 1
            if vanished < _VANISHED:
                continue
            raise unwritable(folder, exc) from exc
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        if on_wait is not None and not told:
            on_wait(holder)
            told = True
        time.sleep(_POLL)


def holder_of(folder: Path) -> Holder | None:
    """What the holder of a model's lock has left word of; None when it is not known."""
    try:
        text = read_regular(folder / HOLDER, 20).decode("ascii", errors="replace").strip()
        since = (folder / HOLDER).stat().st_mtime
    except OSError:
        return None
    return Holder(int(text), since) if text.isascii() and text.isdigit() else None


def busy(folder: Path) -> StoreBusyError | None:
    """The error for a model that another process changes right now; None where nobody does."""
    from filelock import FileLock, Timeout

    if not (folder / LOCK).is_file():
        return None
    try:
        with FileLock(folder / LOCK, timeout=0, thread_local=False):
            return None
    except Timeout:
        return _busy(folder, holder_of(folder))
    except OSError:
        # a store that cannot be written is changed by nobody
        return None


def unwritable(path: Path, exc: OSError) -> StoreError:
    """The error for a folder of the store that the system does not let us change.

    Where the disk is full it has both numbers, the needed one as far as it is known: small files.
    """
    if exc.errno in FULL:
        # imported here: with its archive formats it is slow to load
        import shutil

        with suppress(OSError):
            place = next(it for it in (path, *path.parents) if it.exists())
            free = shutil.disk_usage(place).free
            # a quota may be spent while the disk has room
            if free < _MARGIN:
                return DiskSpaceError(str(path), _MARGIN, free)
    return StoreError(
        f"the data folder cannot be written at `{path}`: {exc.strerror or exc}",
        hint="check its permissions and free space, or choose another with `--data-dir`",
    )


def _note_holder(folder: Path) -> None:
    # only for the others' message: a full disk must not keep anyone from removing a model
    with suppress(OSError):
        (folder / HOLDER).write_text(f"{os.getpid()}\n", "ascii")


def _busy(folder: Path, holder: Holder | None) -> StoreBusyError:
    who = str(holder) if holder is not None else "another process"
    name = "/".join(folder.parts[-2:])
    return StoreBusyError(
        f"`{name}` is being changed by {who} (a pull, an import or a removal)",
        hint="wait until it is done, then try again",
    )
