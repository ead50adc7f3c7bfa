"""Hard links, and files that stay where they are."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from geniex_catalogue.errors import GenieXError, UsageError
from geniex_catalogue.hubs.localfs import Mode, import_path
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


@pytest.mark.parametrize("whole_folder", [False, True], ids=["a file", "a folder of two"])
@pytest.mark.parametrize("between", ["nothing", "remove"])
def test_the_same_links_again_leave_nothing_on_its_way(
    store: Store, tmp_path: Path, whole_folder: bool, between: str
) -> None:
    files = {"m-Q4_0.gguf": small(), "m-Q8_0.gguf": small()}
    source = write(tmp_path / "src", files if whole_folder else {"m-Q4_0.gguf": small()})
    for _ in range(3):
        model = import_path(REF, source if whole_folder else source / "m-Q4_0.gguf", store, "link")
        assert (model.status, model.partial, model.reason) == ("ready", (), None)
        assert model.size == len(small()) * (2 if whole_folder else 1)
        assert store.list() == [model]
        assert names(store) == {path.name for path in source.iterdir()}
        assert not (model.folder / ".inflight").exists()
        assert all((model.folder / path.name).samefile(path) for path in source.iterdir())
        if between == "remove":
            assert store.remove(REF) == 0
            assert untouched(store)


def leave_behind(store: Store, path: Path) -> None:
    """What a second import by link left in former versions: links to what is in its place."""
    folder = import_path(REF, path, store, "link").folder
    (folder / ".inflight").mkdir()
    (folder / ".inflight" / path.name).hardlink_to(path)
    shutil.copy(folder / "geniex.json", folder / ".inflight")
    assert store.list()[0].reason == "a pull did not finish"


@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
@pytest.mark.parametrize("other", [False, True], ids=["the same", "another precision"])
def test_links_that_were_left_behind_go_with_the_next_import(
    store: Store, tmp_path: Path, mode: Mode, other: bool
) -> None:
    source = write(tmp_path / "src", {"m-Q4_0.gguf": small(), "m-Q8_0.gguf": small()})
    leave_behind(store, source / "m-Q4_0.gguf")
    model = import_path(REF, source / ("m-Q8_0.gguf" if other else "m-Q4_0.gguf"), store, mode)
    assert (model.status, model.reason) == ("ready", None)
    assert model.size == len(small()) * (2 if other else 1)
    assert not (model.folder / ".inflight").exists()


@pytest.mark.parametrize("change", ["remove", "remove a precision", "clean"])
@pytest.mark.parametrize("elsewhere", [True, False], ids=["kept elsewhere", "gone elsewhere"])
def test_only_the_last_link_to_a_file_frees_its_bytes(
    store: Store, tmp_path: Path, change: str, elsewhere: bool
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    leave_behind(store, path)
    if not elsewhere:
        path.unlink()
    if change == "remove":
        freed = store.remove(REF)
    elif change == "remove a precision":
        freed = store.remove(REF.with_precision("Q4_0"))
    else:
        freed = store.clean()[1]
    assert freed == (0 if elsewhere else len(small()))
    assert untouched(store)


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
