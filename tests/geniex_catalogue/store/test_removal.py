"""Removal: a model or a precision of it goes, and what others use stays."""

import json
from pathlib import Path

import pytest

from geniex_catalogue.errors import ModelNotFoundError, PrecisionNotFoundError
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from tests.geniex_catalogue.store.models import REF, manifest, publish, theirs, tree


def test_removing_a_precision_takes_its_shards(store: Store) -> None:
    folder = theirs(store)
    publish(store, "b.gguf", label="BF16")
    assert store.remove(REF.with_precision("q4_0")) == 20
    assert not any("Q4_0" in name for name in tree(folder))
    assert "other-00002-of-00002.gguf" in tree(folder)
    assert store.list()[0].precisions == ("BF16",)


def test_removing_keeps_files_that_another_precision_uses(store: Store) -> None:
    shared = FileRecord("shared.gguf", 10, precision="Q4_0")
    both = Manifest(REF.name, "gguf", {"Q4_0": FileRecord("a.gguf", 10), "Q8_0": shared}, (shared,))
    with store.lock(REF):
        folder = store.stage(REF, both)
        staged = {name: folder / name for name in ("a.gguf", "shared.gguf")}
        for path in staged.values():
            path.write_bytes(b"x" * 10)
        model = store.publish(REF, both, staged)
    assert len(model.records("Q4_0")) == 2
    assert store.remove(REF.with_precision("Q4_0")) == 10
    assert "shared.gguf" in tree(store.folder(REF))
    assert store.list()[0].precisions == ("Q8_0",)


def test_removing_one_of_two_labels_of_the_same_files(store: Store) -> None:
    folder = theirs(store)
    document = json.loads((folder / "geniex.json").read_text())
    document["ModelFile"]["OTHER"] = document["ModelFile"]["Q4_0"]
    (folder / "geniex.json").write_text(json.dumps(document))
    assert store.remove(REF.with_precision("Q4_0")) == 0
    (model,) = store.list()
    assert (model.precisions, len(model.records("OTHER"))) == (("OTHER",), 2)


def test_removing_by_file_name(store: Store) -> None:
    publish(store, "a.gguf")
    publish(store, "b.gguf", label="Q8_0")
    store.remove(ModelRef("org", "repo", file="b.gguf"))
    assert store.list()[0].precisions == ("Q4_0",)


def test_removing_a_partial_precision(store: Store) -> None:
    publish(store, "a.gguf")
    with store.lock(REF):
        folder = store.stage(REF, manifest("b.gguf", label="Q8_0"))
        (folder / "b.gguf.partial").write_bytes(b"12345")
    assert store.remove(REF.with_precision("Q8_0")) >= 5
    (model,) = store.list()
    assert (model.precisions, model.partial, model.reason) == (("Q4_0",), (), None)


@pytest.mark.parametrize("selector", [None, "Q4_0"], ids=["whole", "last precision"])
def test_removing_the_last_leaves_no_folder(store: Store, selector: str | None) -> None:
    publish(store, "sub/a.gguf")
    ref = REF.with_precision(selector) if selector else REF
    assert store.remove(ref) > 0
    assert list(store.models.iterdir()) == []


def test_removing_what_is_not_there(store: Store) -> None:
    publish(store, "a.gguf")
    with pytest.raises(ModelNotFoundError):
        store.remove(ModelRef("org", "other"))
    with pytest.raises(PrecisionNotFoundError, match="Q4_0"):
        store.remove(REF.with_precision("Q8_0"))
    assert not (store.models / "org" / "other").exists()


def test_files_in_place_are_only_forgotten(store: Store, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"x" * 10)
    new = Manifest(REF.name, "gguf", {"Q4_0": FileRecord("mine.gguf", 10, place=mine)})
    with store.lock(REF):
        store.stage(REF, new)
        store.publish(REF, new)
    (model,) = store.list()
    assert (model.status, model.size) == ("ready", 10)
    assert model.path(model.records("Q4_0")[0]) == mine
    moved = mine.rename(tmp_path / "moved.gguf")
    assert store.list()[0].status == "damaged"
    assert str(mine) in str(store.list()[0].reason)
    store.remove(REF)
    assert moved.exists()


def test_clean_takes_everything(store: Store) -> None:
    publish(store, "a.gguf")
    publish(store, "b.gguf", ref=ModelRef("other", "damaged"))
    (store.folder(ModelRef("other", "damaged")) / "geniex.json").write_text("{")
    with store.lock(ModelRef("third", "partial")):
        folder = store.stage(ModelRef("third", "partial"), manifest("c.gguf"))
        (folder / "c.gguf.partial").write_bytes(b"123")
    count, freed = store.clean()
    assert count == 3
    assert freed >= 23
    assert list(store.models.iterdir()) == []
