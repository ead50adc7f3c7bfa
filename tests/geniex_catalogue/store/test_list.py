"""The list: what is in the store, and what of it is usable."""

import hashlib
import os
import subprocess

import pytest

from geniex_catalogue.errors import ModelNotFoundError
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from tests.geniex_catalogue.store.models import REF, manifest, publish, theirs, tree


def test_an_empty_store_is_no_error(store: Store) -> None:
    assert store.list() == []
    assert store.find(REF) is None
    assert store.clean() == (0, 0)
    assert not store.root.exists()


def test_published_is_listed_and_found(store: Store) -> None:
    publish(store, "sub/a-00001-of-00002.gguf", "sub/a-00002-of-00002.gguf")
    (model,) = store.list()
    assert (model.name, model.status, model.precisions, model.format) == (
        "org/repo",
        "ready",
        ("Q4_0",),
        "gguf",
    )
    assert model.size == 20
    assert model.reason is None
    assert [model.path(r).name for r in model.records("Q4_0")] == [
        "a-00001-of-00002.gguf",
        "a-00002-of-00002.gguf",
    ]
    assert store.find(REF) == model
    assert store.find(ModelRef("ORG", "Repo")) == model
    files = {"geniex.json", "sub/a-00001-of-00002.gguf", "sub/a-00002-of-00002.gguf"}
    assert tree(model.folder) - {".lock"} == files


def test_the_same_name_goes_before_another_case(store: Store) -> None:
    publish(store, "a.gguf")
    if store.find(ModelRef("org", "REPO")) and (store.models / "org" / "REPO").exists():
        pytest.skip("this filesystem knows no case")
    # a folder of its own can only come from outside: the store itself finds the first one
    other = store.models / "org" / "REPO"
    other.mkdir()
    (other / "geniex.json").write_text(manifest("b.gguf").to_json())
    (other / "b.gguf").write_bytes(b"x" * 10)
    assert store.folder(ModelRef("org", "REPO")) == other
    assert store.folder(REF) == store.models / "org" / "repo"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        pytest.param("ai-hub-models/foo", "qualcomm/foo", id="older name of the hub"),
        pytest.param("AI-Hub-Models/Foo", "qualcomm/foo", id="in another case"),
        pytest.param("ORG/other", "org/other", id="beside an org of another case"),
    ],
)
def test_what_is_listed_can_be_called_and_removed(store: Store, folder: str, name: str) -> None:
    publish(store, "a.gguf")
    publish(store, "a.gguf", ref=ModelRef("qualcomm", "beside"))
    place = store.models / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / "geniex.json").write_text(manifest("b.gguf").to_json())
    (place / "b.gguf").write_bytes(b"x" * 10)
    for ref in (ModelRef(*name.split("/")), ModelRef(*folder.split("/"))):
        found = store.find(ref)
        assert found is not None and found.status == "ready"
        assert found in store.list()
    assert [model.name for model in store.list()] == sorted(m.name for m in store.list())
    assert store.remove(ModelRef(*name.split("/"))) == 10
    assert not place.exists()
    assert [model.name for model in store.list()] == ["org/repo", "qualcomm/beside"]


def test_a_repo_named_like_the_hub_is_no_other(store: Store) -> None:
    publish(store, "a.gguf", ref=ModelRef("org", "qualcomm"))
    assert store.find(ModelRef("org", "ai-hub-models")) is None


def test_a_cache_of_geniex_is_usable(store: Store) -> None:
    theirs(store)
    (model,) = store.list()
    assert (model.status, model.precisions, model.partial) == ("ready", ("Q4_0",), ())
    assert [record.name for record in model.records("Q4_0")] == [
        "a-Q4_0-00001-of-00002.gguf",
        "a-Q4_0-00002-of-00002.gguf",
    ]


DAMAGE = {
    "cut manifest": lambda folder: (folder / "geniex.json").write_text('{"Name'),
    "no manifest": lambda folder: (folder / "geniex.json").unlink(),
    "manifest is a folder": lambda folder: (
        (folder / "geniex.json").unlink(),
        (folder / "geniex.json").mkdir(),
    ),
    "manifest is a pipe": lambda folder: (
        (folder / "geniex.json").unlink(),
        subprocess.run(["mkfifo", str(folder / "geniex.json")], check=True),
    ),
    "missing file": lambda folder: (folder / "a.gguf").unlink(),
    "short file": lambda folder: (folder / "a.gguf").write_bytes(b"x"),
    "file is a folder": lambda folder: ((folder / "a.gguf").unlink(), (folder / "a.gguf").mkdir()),
}

if os.name == "nt":
    del DAMAGE["manifest is a pipe"]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_listed_and_can_be_removed(store: Store, damage: object) -> None:
    publish(store, "a.gguf")
    publish(store, "b.gguf", ref=ModelRef("org", "sound"))
    assert callable(damage)
    damage(store.folder(REF))
    damaged, sound = store.list()
    assert (damaged.status, sound.status) == ("damaged", "ready")
    assert damaged.reason
    store.remove(REF)
    assert [model.name for model in store.list()] == ["org/sound"]


def test_verify_names_what_is_wrong(store: Store) -> None:
    good = hashlib.sha256(b"x" * 10).hexdigest()
    new = Manifest(
        REF.name,
        "gguf",
        {"Q4_0": FileRecord("a.gguf", 10, sha256=good)},
        (FileRecord("b.gguf", 10, sha256=good),),
    )
    with store.lock(REF):
        folder = store.stage(REF, new)
        for name in ("a.gguf", "b.gguf"):
            (folder / name).write_bytes(b"x" * 10)
        store.publish(REF, new, {name: folder / name for name in ("a.gguf", "b.gguf")})
    read: list[int] = []
    assert store.verify(REF, lambda name, count: read.append(count)) == ()
    assert sum(read) == 20
    (store.folder(REF) / "b.gguf").write_bytes(b"y" * 10)
    (problem,) = store.verify(REF)
    assert "b.gguf" in problem
    with pytest.raises(ModelNotFoundError):
        store.verify(ModelRef("no", "model"))


def test_strange_folders_do_not_disturb(store: Store) -> None:
    publish(store, "a.gguf")
    for name in ("org/has space", "org/empty", ".hidden/x", "org/..."):
        (store.models / name).mkdir(parents=True, exist_ok=True)
        (store.models / name / "file").write_text("x" if "empty" not in name else "")
    (store.models / "file").write_text("x")
    (store.models / "org" / "file").write_text("x")
    assert [model.name for model in store.list()] == ["org/repo"]
