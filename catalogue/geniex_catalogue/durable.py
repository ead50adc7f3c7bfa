"""Changing files so that a crash leaves the old or the new, never a half."""

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

# what a system says of a disk, or a user's share of it, that is full
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")


def write(path: Path, *data: bytes | memoryview, mode: int = 0o666) -> None:
    """Replace a file's content as a whole: temporary file, fsync, rename, fsync of the folder.

    Of the `mode` the file has what the umask allows.
    """
    # not tempfile: its files are for their owner alone, whatever the umask allows
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            for piece in data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        # the first error is the one to tell
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def drop_leftovers(folder: Path) -> None:
    """Delete what writers that were killed left in a folder.

    Call it where nobody else can be writing there. What cannot be deleted stays, and harms nobody.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()


def move(source: Path, target: Path) -> None:
    """Move a file within one filesystem to its final name, with its bytes on the disk before.

    The caller syncs the folder (`sync_folder`) once all files are there.
    """
    settle(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_same(source, target):
        # POSIX renames no link to another one of its file: both names would stay
        source.unlink()
    else:
        source.replace(target)


def settle(path: Path) -> None:
    """Bring a file's bytes to the disk."""
    # a read-only file is a link to one that was written long ago
    with suppress(PermissionError), path.open("rb+") as file:
        os.fsync(file.fileno())


def is_same(path: Path, other: Path) -> bool:
    """Whether two names are hard links to one file; what is not there is no other's file."""
    try:
        return os.path.samestat(path.lstat(), other.lstat())
    except OSError:
        return False


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last; where a system cannot do that, it does so by itself."""
    # Windows opens no folders
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
