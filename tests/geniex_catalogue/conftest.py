"""A store for the tests of the catalogue."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex_catalogue.store import Store

# bytes of a small disk
ROOM = 6 << 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store, whose folder is not made yet."""
    return Store(tmp_path / "data")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of `ROOM` bytes."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs the right to mount a tmpfs")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
