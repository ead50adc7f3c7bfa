"""The store through its public door: list, publish, remove, clean, verify, and the lock."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from geniex_catalogue import durable
from geniex_catalogue.errors import (
    ModelNotFoundError,
    PrecisionNotFoundError,
    StoreBusyError,
    StoreError,
)
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.model_lock import holder_of
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store

REF = ModelRef("org", "repo")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def manifest(*names: str, label: str = "Q4_0", size: int = 10, ref: ModelRef = REF) -> Manifest:
    """A precision of these files, `size` bytes each."""
    first, *rest = (FileRecord(name, size, precision=label) for name in names)
    return Manifest(ref.name, "gguf", {label: first}, tuple(rest))


def publish(store: Store, *names: str, label: str = "Q4_0", ref: ModelRef = REF) -> None:
    new = manifest(*names, label=label, ref=ref)
    with store.lock(ref):
        folder = store.stage(ref, new)
        staged = {}
        for name in names:
            staged[name] = folder / (name.replace("/", "_") + ".partial")
            staged[name].write_bytes(b"x" * 10)
        store.publish(ref, new, staged)


def tree(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


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


THEIRS = {
    "Name": "org/repo",
    "PluginId": "llama_cpp",
    "ModelFile": {
        "Q4_0": {"Name": "a-Q4_0-00001-of-00002.gguf", "Downloaded": True, "Size": 10},
        "Q8_0": {"Name": "a-Q8_0.gguf", "Downloaded": False, "Size": 10},
    },
    "ExtraFiles": [
        {"Name": "a-Q4_0-00002-of-00002.gguf", "Downloaded": True, "Size": 10},
        {"Name": "other-00002-of-00002.gguf", "Downloaded": True, "Size": 10},
    ],
}


def theirs(store: Store) -> Path:
    folder = store.models / "org" / "repo"
    folder.mkdir(parents=True)
    (folder / "geniex.json").write_text(json.dumps(THEIRS))
    for name in ("a-Q4_0-00001-of-00002", "a-Q4_0-00002-of-00002", "other-00002-of-00002"):
        (folder / f"{name}.gguf").write_bytes(b"x" * 10)
    return folder


def test_a_cache_of_geniex_is_usable(store: Store) -> None:
    theirs(store)
    (model,) = store.list()
    assert (model.status, model.precisions, model.partial) == ("ready", ("Q4_0",), ())
    assert [record.name for record in model.records("Q4_0")] == [
        "a-Q4_0-00001-of-00002.gguf",
        "a-Q4_0-00002-of-00002.gguf",
    ]


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


def test_an_unusable_root_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = Store(tmp_path / "file")
    with pytest.raises(StoreError) as caught, store.lock(REF):
        pass
    assert str(tmp_path / "file") in caught.value.message
    assert "--data-dir" in str(caught.value.hint)


def test_the_lock_keeps_threads_apart_and_tells_who_waits(store: Store) -> None:
    order: list[str] = []
    inside = threading.Event()

    def first() -> None:
        with store.lock(REF):
            inside.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(5)
    holders: list[int | None] = []
    with store.lock(REF, holders.append):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert holders == [os.getpid()]


def test_a_busy_model_is_an_error_after_the_timeout(store: Store) -> None:
    with (
        store.lock(REF),
        pytest.raises(StoreBusyError, match=f"process {os.getpid()}"),
        store.lock(REF, timeout=0.1),
    ):
        pass


HOLDER = """
    import sys, time
    from pathlib import Path
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.store import Store
    with Store(Path(sys.argv[1])).lock(ModelRef("org", "repo")):
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_dead_holder_holds_nothing(store: Store) -> None:
    source = Path(sys.modules["geniex_catalogue"].__file__ or "").parent.parent
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(store.root)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == b"held"
    with pytest.raises(StoreBusyError, match=f"process {holder.pid}"), store.lock(REF, timeout=0):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with store.lock(REF, timeout=10):
        pass
    assert not (store.models / "org").exists()


def test_removing_while_others_wait_leaves_one_holder_at_a_time(store: Store) -> None:
    """Remove, publish and lock the same model from many threads: never two inside."""
    inside = 0
    worst = 0
    guard = threading.Lock()

    def work(number: int) -> None:
        nonlocal inside, worst
        for _ in range(4):
            with store.lock(REF):
                with guard:
                    inside += 1
                    worst = max(worst, inside)
                (store.folder(REF) / "x").write_text(str(number))
                (store.folder(REF) / "x").unlink()
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1
    assert not (store.models / "org").exists()


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


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among files")
def test_a_pipe_for_the_holder_makes_nobody_wait(store: Store) -> None:
    publish(store, "a.gguf")
    os.mkfifo(store.folder(REF) / ".lock.pid")
    assert holder_of(store.folder(REF)) is None
