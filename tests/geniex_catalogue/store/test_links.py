"""Links in the store: read, and what they lead to is never deleted."""

import os
from pathlib import Path

import pytest

from geniex_catalogue.store import Store
from tests.geniex_catalogue.store.models import REF, publish


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
@pytest.mark.parametrize("change", ["remove", "remove a precision", "pull anew", "clean"])
def test_a_file_that_was_moved_and_linked_is_read_and_never_deleted(
    store: Store, tmp_path: Path, change: str
) -> None:
    publish(store, "a.gguf")
    publish(store, "b.gguf", label="Q8_0")
    moved = tmp_path / "other disk" / "a.gguf"
    moved.parent.mkdir()
    file = store.folder(REF) / "a.gguf"
    file.rename(moved)
    file.symlink_to(moved)
    (model,) = store.list()
    assert (model.status, model.precisions, model.reason) == ("ready", ("Q4_0", "Q8_0"), None)
    assert model.size == 20
    assert store.verify(REF) == ()
    if change == "remove":
        store.remove(REF)
    elif change == "remove a precision":
        store.remove(REF.with_precision("Q4_0"))
    elif change == "clean":
        store.clean()
    else:
        publish(store, "a.gguf")
        assert not file.is_symlink() and file.read_bytes() == b"x" * 10
    assert moved.read_bytes() == b"x" * 10
    moved.unlink()
    assert store.find(REF) is None or not file.is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_without_its_file_is_damage(store: Store, tmp_path: Path) -> None:
    publish(store, "a.gguf")
    file = store.folder(REF) / "a.gguf"
    file.unlink()
    file.symlink_to(tmp_path / "gone.gguf")
    assert store.list()[0].reason == "`a.gguf` is missing"


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_linked_folder_that_leads_out_is_damage_and_not_followed(
    store: Store, tmp_path: Path
) -> None:
    publish(store, "sub/a.gguf")
    outside = tmp_path / "outside"
    folder = store.folder(REF) / "sub"
    folder.rename(outside)
    folder.symlink_to(outside)
    assert store.list()[0].status == "damaged"
    store.remove(REF)
    assert (outside / "a.gguf").exists()
    assert store.list() == []


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_linked_model_folder_is_only_forgotten(store: Store, tmp_path: Path) -> None:
    publish(store, "a.gguf")
    elsewhere = tmp_path / "elsewhere"
    store.folder(REF).rename(elsewhere)
    (store.models / "org" / "repo").symlink_to(elsewhere)
    assert store.list()[0].precisions == ("Q4_0",)
    assert store.remove(REF) == 0
    assert (elsewhere / "a.gguf").exists()
    assert store.list() == []
