"""A small disk for a data folder, that can be filled."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK = 1 << 16


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path | None]:
    """A folder on a file system in memory of that size; None where we may not mount one."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            # lazily: a process that was killed may still have it
            subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Leave no byte on the disk of a folder inside the block."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (_CHUNK, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size):
                    pass
    try:
        yield
    finally:
        ballast.unlink()
