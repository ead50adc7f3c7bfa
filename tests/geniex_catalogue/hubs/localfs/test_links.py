"""Hard links, and files that stay where they are."""

import errno
import os
from pathlib import Path

import pytest

from geniex_catalogue.errors import GenieXError, UsageError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, names, untouched
from tests.geniex_catalogue.hubs.localfs.sources import write
from tests.ggufwriter import small


def test_hard_links(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    import_path(REF, path, store, "link")
    assert (store.folder(REF) / "m-Q4_0.gguf").samefile(path)
    assert store.remove(REF) == 0
    assert path.exists()


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_hard_link_goes_to_the_file_behind_a_link(store: Store, tmp_path: Path) -> None:
    blob = write(tmp_path / "src", {"blob": small()}) / "blob"
    link = tmp_path / "src" / "m-Q4_0.gguf"
    link.symlink_to(blob)
    import_path(REF, link, store, "link")
    stored = store.folder(REF) / "m-Q4_0.gguf"
    assert not stored.is_symlink()
    assert stored.samefile(blob)


def test_no_hard_link_across_filesystems(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"

    def refuse(*args: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(UsageError, match="hard-linked") as caught:
        import_path(REF, path, store, "link")
    assert "--in-place" in str(caught.value.hint)
    assert untouched(store)


def test_in_place(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    monkeypatch.chdir(tmp_path / "src")
    model = import_path(REF, Path("m-Q4_0.gguf"), store, "in_place")
    assert names(store) == set()
    assert model.size == len(small())
    resolved = resolve("local/mine", store)
    assert isinstance(resolved, ResolvedModel)
    assert resolved.path == path
    path.rename(tmp_path / "moved.gguf")
    (listed,) = store.list()
    assert listed.status == "damaged"
    assert str(path) in str(listed.reason)
    with pytest.raises(GenieXError, match=r"m-Q4_0\.gguf"):
        resolve("local/mine", store)
    store.remove(REF)
    assert (tmp_path / "moved.gguf").exists()


def test_in_place_of_the_store_itself(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    import_path(REF, path, store)
    stored = store.folder(REF) / "m-Q4_0.gguf"
    with pytest.raises(UsageError, match="in the store already"):
        import_path(REF, stored, store, "in_place")
    # onto itself by copy changes nothing
    assert import_path(REF, stored, store).precisions == ("Q4_0",)
    assert stored.read_bytes() == small()
