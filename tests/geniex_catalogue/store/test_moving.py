"""A publication that is stopped between two files: old and new never mix."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from geniex_catalogue.errors import ModelNotFoundError, StoreError
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.store import Store
from tests.geniex_catalogue.store.models import REF, tree

OLD, NEW = b"old-bytes!", b"new-bytes!"
NAMES = ("a-00001-of-00002.gguf", "a-00002-of-00002.gguf")


class Killed(BaseException):
    """The end of a process, as far as a test can have one."""


def split(data: bytes) -> Manifest:
    """A model in two parts."""
    first, second = (
        FileRecord(name, len(data), sha256=hashlib.sha256(data).hexdigest(), precision="Q4_0")
        for name in NAMES
    )
    return Manifest(REF.name, "gguf", {"Q4_0": first}, (second,))


def bring(store: Store, data: bytes) -> None:
    manifest = split(data)
    with store.lock(REF):
        folder = store.stage(REF, manifest)
        staged = {name: folder / f"{name}.partial" for name in NAMES}
        for path in staged.values():
            path.write_bytes(data)
        store.publish(REF, manifest, staged)


def kill_at(step: int) -> Callable[[Path, Path], Path]:
    """`Path.replace`, but at its `step`-th call the process is gone: nothing is undone."""
    left = [step]
    replace = Path.replace

    def dying(path: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] <= 0:
            raise Killed
        return replace(path, target)

    return dying


def contents(store: Store) -> set[bytes]:
    return {(store.folder(REF) / name).read_bytes() for name in NAMES}


@pytest.mark.parametrize("step", range(1, 8))
def test_an_update_that_is_killed_leaves_the_old_or_the_new(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    bring(store, OLD)
    monkeypatch.setattr(Path, "replace", kill_at(step))
    with suppress(Killed):
        bring(store, NEW)
    monkeypatch.undo()
    model = store.find(REF)
    assert model is not None and model.precisions == ("Q4_0",)
    assert contents(store) in ({OLD}, {NEW})
    assert store.verify(REF) == ()
    bring(store, NEW)
    assert contents(store) == {NEW}
    assert tree(store.folder(REF)) <= {".lock", "geniex.json", *NAMES}


@pytest.mark.parametrize("step", range(1, 6))
def test_a_first_pull_that_is_killed_loses_nothing_that_has_arrived(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(Path, "replace", kill_at(step))
    monkeypatch.setattr("geniex_catalogue.publishing._undo", lambda *given: None)
    with suppress(Killed):
        bring(store, NEW)
    monkeypatch.undo()
    model = store.find(REF)
    here = [path for path in store.folder(REF).rglob("*") if path.is_file()]
    assert model is None or model.status == "ready" or step <= 2
    if model is not None and step > 1:
        assert sum(path.read_bytes() == NEW for path in here) == 2


@pytest.mark.parametrize(
    "journal", ["{", "[]", '{"manifest": {}, "moves": [["../up", "a"]]}', "\0"], ids=str
)
def test_a_damaged_journal_moves_nothing(store: Store, journal: str) -> None:
    bring(store, OLD)
    inflight = store.folder(REF) / ".inflight"
    inflight.mkdir()
    (inflight / "moving.json").write_text(journal)
    (inflight / "a").write_bytes(NEW)
    model = store.find(REF)
    assert model is not None and model.status == "ready"
    assert contents(store) == {OLD}
    assert not (store.folder(REF).parent / "up").exists()


@pytest.mark.skipif(os.name == "nt", reason="a folder's modes are POSIX")
def test_a_move_that_fails_is_ended_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(store, OLD)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("geniex_catalogue.publishing._settle_names", full)
        with pytest.raises(StoreError, match="No space"):
            bring(store, NEW)
    assert store.find(REF) is not None
    assert contents(store) == {NEW}
    assert store.verify(REF) == ()


def test_a_check_beside_an_update_sees_no_damage(store: Store) -> None:
    bring(store, OLD)
    left = [NEW]

    def update(name: str, count: int) -> None:
        if left:
            bring(store, left.pop())

    report = store.check(REF, update)
    assert (report.status, contents(store)) == ("ok", {NEW})

    def remove(name: str, count: int) -> None:
        store.remove(REF)

    with pytest.raises(ModelNotFoundError, match="org/repo"):
        store.check(REF, remove)
