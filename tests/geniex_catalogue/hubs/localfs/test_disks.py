"""Disks that are full or refuse a name: nothing is left of the import."""

import errno
import os
from pathlib import Path

import pytest

from geniex_catalogue import durable
from geniex_catalogue.errors import DiskSpaceError, GenieXError, StoreError
from geniex_catalogue.hubs.localfs import Mode, import_path
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, untouched
from tests.geniex_catalogue.hubs.localfs.sources import pack, write
from tests.ggufwriter import small


def test_too_little_room(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"

    class Usage:
        free = 10

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(DiskSpaceError, match="10 bytes"):
        import_path(REF, path, store)
    assert untouched(store)
    assert import_path(REF, path, store, "link").status == "ready"


def test_a_disk_that_fills_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    with pytest.raises(DiskSpaceError):
        import_path(REF, path, store)
    assert untouched(store)


@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
def test_a_disk_too_full_for_the_manifest(
    store: Store, tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    written: list[Path] = []

    def full(target: Path, data: bytes) -> None:
        written.append(target)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(data)

    monkeypatch.setattr(durable, "write", full)
    with pytest.raises(StoreError, match="No space left"):
        import_path(REF, path, store, mode)
    assert untouched(store)
    assert path.exists()


def test_a_name_that_the_filesystem_refuses_leaves_nothing(store: Store, tmp_path: Path) -> None:
    path = pack(tmp_path, {"m" * 300 + ".gguf": small(), "m-Q4_0.gguf": small()})
    with pytest.raises(GenieXError, match="mmm"):
        import_path(REF, path, store)
    assert untouched(store)
