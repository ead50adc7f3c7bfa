"""Publication: what arrives whole is in place at once, and nothing else is."""

import errno
import json
import os
from pathlib import Path

import pytest

from geniex_catalogue import durable
from geniex_catalogue.errors import StoreError
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.store import Store
from tests.geniex_catalogue.store.models import REF, manifest, publish, tree


def test_a_second_precision_joins_the_first(store: Store) -> None:
    publish(store, "a-Q8_0.gguf", label="Q8_0")
    publish(store, "a-Q4_0.gguf", label="Q4_0")
    (model,) = store.list()
    assert model.precisions == ("Q4_0", "Q8_0")


def test_new_files_of_a_precision_replace_the_old(store: Store) -> None:
    publish(store, "old-00001-of-00002.gguf", "old-00002-of-00002.gguf")
    publish(store, "new.gguf")
    (model,) = store.list()
    assert [record.name for record in model.records("Q4_0")] == ["new.gguf"]
    assert not any(name.startswith("old") for name in tree(model.folder))


def test_a_second_precision_half_pulled_leaves_the_first_usable(store: Store) -> None:
    publish(store, "a.gguf")
    with store.lock(REF):
        folder = store.stage(REF, manifest("b.gguf", label="Q8_0"))
        (folder / "b.gguf.partial").write_bytes(b"12345")
    (model,) = store.list()
    assert (model.status, model.precisions, model.partial) == ("ready", ("Q4_0",), ("Q8_0",))
    assert model.size == 15
    assert model.reason is not None
    assert "Q8_0" in model.reason


def test_a_first_precision_half_pulled_is_partial(store: Store) -> None:
    with store.lock(REF):
        folder = store.stage(REF, manifest("a.gguf"))
        (folder / "a.gguf.partial").write_bytes(b"12345")
    (model,) = store.list()
    assert (model.status, model.precisions, model.partial) == ("partial", (), ("Q4_0",))
    assert store.find(REF) == model


def test_another_pull_keeps_what_has_arrived(store: Store) -> None:
    with store.lock(REF):
        folder = store.stage(REF, manifest("b.gguf", label="Q8_0"))
        (folder / "b.gguf.partial").write_bytes(b"12345")
        (folder / "b.gguf.partial.json").write_text("{}")
    publish(store, "a.gguf")
    (model,) = store.list()
    assert (model.precisions, model.partial) == (("Q4_0",), ("Q8_0",))
    assert tree(folder) == {"geniex.json", "b.gguf.partial", "b.gguf.partial.json"}
    publish(store, "b.gguf", label="Q8_0")
    assert not folder.exists()


def test_a_new_try_replaces_what_the_earlier_one_was_about(store: Store) -> None:
    with store.lock(REF):
        store.stage(REF, manifest("old-00001-of-00002.gguf", "old-00002-of-00002.gguf"))
        folder = store.stage(REF, manifest("new.gguf"))
    staged = json.loads((folder / "geniex.json").read_text())
    assert (staged["ModelFile"]["Q4_0"]["Name"], staged["ExtraFiles"]) == ("new.gguf", [])


def test_unstage_forgets_what_never_arrived(store: Store) -> None:
    with store.lock(REF):
        folder = store.stage(REF, manifest("a.gguf"))
        (folder / "a.gguf.partial.json").write_text("{}")
        store.unstage(REF)
    assert store.list() == []
    assert not (store.models / "org").exists()


def test_what_did_not_arrive_whole_is_not_published(store: Store) -> None:
    new = manifest("a.gguf")
    with store.lock(REF):
        part = store.stage(REF, new) / "a.gguf"
        part.write_bytes(b"short")
        with pytest.raises(StoreError, match="5 bytes, 10 expected"):
            store.publish(REF, new, {"a.gguf": part})
    assert store.list()[0].precisions == ()


@pytest.mark.parametrize("newer", [("gguf", "Q4_0"), ("qairt", "W8A16")], ids=["format", "bundle"])
def test_a_bundle_shares_its_folder_with_nothing(store: Store, newer: tuple[str, str]) -> None:
    bundle = Manifest(REF.name, "qairt", {"W4A16": FileRecord("a.bin", 10)})
    with store.lock(REF):
        part = store.stage(REF, bundle) / "a.bin"
        part.write_bytes(b"x" * 10)
        store.publish(REF, bundle, {"a.bin": part})
        other = Manifest(REF.name, newer[0], {newer[1]: FileRecord("b", 1)})  # type: ignore[arg-type]
        with pytest.raises(StoreError, match="already here") as caught:
            store.stage(REF, other)
    assert "geniex remove org/repo" in str(caught.value.hint)


def test_a_crash_while_publishing_leaves_the_old_model(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, "a.gguf")
    new = manifest("b.gguf", label="Q8_0")

    def crash(*args: object) -> None:
        raise KeyboardInterrupt

    with store.lock(REF):
        part = store.stage(REF, new) / "b.gguf"
        part.write_bytes(b"x" * 10)
        monkeypatch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            store.publish(REF, new, {"b.gguf": part})
        monkeypatch.undo()
    (model,) = store.list()
    assert (model.precisions, model.partial) == (("Q4_0",), ("Q8_0",))


class Full:
    """A disk that is full for the `at`-th file that is written as a whole."""

    def __init__(self, at: int) -> None:
        self.left = at

    def fsync(self, handle: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("at", [1, 2, 3], ids=["staging", "moving", "publishing"])
def test_a_full_disk_leaves_nothing_in_place(
    store: Store, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.lock(REF):
        monkeypatch.setattr(os, "fsync", Full(at).fsync)
        # a folder's own fsync would count too
        monkeypatch.setattr(durable, "sync_folder", lambda folder: None)
        with pytest.raises(StoreError, match="No space left"):
            part = store.stage(REF, manifest("a.gguf")) / "part"
            part.write_bytes(b"x" * 10)
            store.publish(REF, manifest("a.gguf"), {"a.gguf": part})
        monkeypatch.undo()
        assert tree(store.folder(REF)) <= {
            ".lock",
            ".lock.pid",
            ".inflight/part",
            ".inflight/geniex.json",
        }
    assert (store.find(REF) is None) == (at == 1)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_the_manifest_is_as_readable_as_the_model(store: Store) -> None:
    before = os.umask(0o027)
    try:
        publish(store, "a.gguf")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in store.folder(REF).iterdir()}
    assert (modes["a.gguf"], modes["geniex.json"]) == (0o640, 0o640)
