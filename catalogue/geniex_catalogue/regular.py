"""Reading what should be a regular file: a pipe in its place makes nobody wait for its writer."""

import errno
import os
import stat
from io import FileIO
from pathlib import Path


def open_regular(path: Path) -> FileIO:
    """A regular file, open for reading. Raises OSError, also for anything else."""
    file = open(path, "rb", buffering=0, opener=_at_once)  # noqa: SIM115
    # asked of the open file: what the name means may change between two looks
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_regular(path: Path, limit: int) -> bytes:
    """Up to `limit` bytes of a regular file. Raises OSError, also for anything else."""
    with open_regular(path) as file:
        data = bytearray()
        while len(data) < limit and (piece := file.read(limit - len(data))):
            data += piece
        return bytes(data)


def _at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
