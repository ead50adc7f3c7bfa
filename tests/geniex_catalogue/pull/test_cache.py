"""What `huggingface_hub` has fetched before is taken from its cache, and stays there."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue.names import parse
from geniex_catalogue.pull import execute, plan_pull, pull
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import shards
from tests.hubserver import HubServer

Cached = Callable[[str, bytes], Path]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    """Put a blob into the hub's cache under the sha256 of what the hub has, as that cache does."""
    cache = tmp_path / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))

    def put(sha256: str, data: bytes) -> Path:
        blobs = cache / "models--org--repo" / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        (blobs / sha256).write_bytes(data)
        return blobs / sha256

    return put


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_cached_file_is_linked_and_not_downloaded(
    repo: HubServer, store: Store, cached: Cached
) -> None:
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    blob = cached(sha(data), data)
    plan = plan_pull(parse("org/repo"), store)
    assert (plan.total, plan.remaining, plan.needed) == (len(data), 0, 0)
    repo.served = 0
    told: list[str] = []
    model = execute(plan, store, note=told.append)
    assert repo.served == 0
    assert told == ["m-Q4_0.gguf: linked from the Hugging Face cache, not downloaded"]
    assert (model.folder / "m-Q4_0.gguf").samefile(blob)
    assert store.verify(model.ref) == ()
    assert store.remove(model.ref) < 1000, "the bytes are still in the cache"
    assert blob.read_bytes() == data


@pytest.mark.parametrize("variable", ["HF_HOME", "XDG_CACHE_HOME", "HOME"])
def test_the_cache_is_where_the_hub_has_it(
    repo: HubServer, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    below = {
        "HF_HOME": "hub",
        "XDG_CACHE_HOME": "huggingface/hub",
        "HOME": ".cache/huggingface/hub",
    }
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    monkeypatch.setenv(variable, str(tmp_path / "x"))
    blobs = tmp_path / "x" / below[variable] / "models--org--repo" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / sha(data)).write_bytes(data)
    assert plan_pull(parse("org/repo"), store).remaining == 0


@pytest.mark.parametrize("fault", ["bytes", "size"])
def test_a_cached_file_that_is_wrong_is_not_believed(
    repo: HubServer, store: Store, cached: Cached, fault: str
) -> None:
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    wrong = bytes(len(data)) if fault == "bytes" else data[:-1]
    blob = cached(sha(data), wrong)
    told: list[str] = []
    model = execute(plan_pull(parse("org/repo"), store), store, note=told.append)
    assert bool(told) == (fault == "bytes")
    assert (model.folder / "m-Q4_0.gguf").read_bytes() == data
    assert blob.read_bytes() == wrong


def test_a_link_into_a_shared_store_of_blobs(
    repo: HubServer, store: Store, cached: Cached, tmp_path: Path
) -> None:
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    shared = tmp_path / "shared"
    shared.write_bytes(data)
    blob = cached(sha(data), b"")
    blob.unlink()
    blob.symlink_to(shared)
    model = pull(parse("org/repo"), store)
    assert not (model.folder / "m-Q4_0.gguf").is_symlink()
    assert (model.folder / "m-Q4_0.gguf").samefile(shared)


def test_another_disk_gets_a_copy(
    repo: HubServer, store: Store, cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    blob = cached(sha(data), data)

    def refuse(path: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    told: list[str] = []
    model = execute(plan_pull(parse("org/repo"), store), store, note=told.append)
    assert told == ["m-Q4_0.gguf: copied from the Hugging Face cache, not downloaded"]
    assert not (model.folder / "m-Q4_0.gguf").samefile(blob)


def test_some_of_a_set_in_the_cache(hub: HubServer, store: Store, cached: Cached) -> None:
    files = shards(3)
    hub.add("org/repo", files)
    names = list(files)
    for name in names[:2]:
        cached(sha(files[name]), files[name])
    plan = plan_pull(parse("org/repo"), store)
    assert plan.remaining == len(files[names[2]])
    model = execute(plan, store)
    assert (model.precisions, store.verify(model.ref)) == (("Q4_0",), ())


def test_a_part_of_an_earlier_try_is_left_for_the_cached_file(
    repo: HubServer, store: Store, cached: Cached
) -> None:
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    plan = plan_pull(parse("org/repo"), store)
    part = plan.fetches[0].part
    with store.lock(plan.ref):
        assert plan.manifest is not None
        store.stage(plan.ref, plan.manifest)
        part.write_bytes(data[:100])
    cached(sha(data), data)
    model = pull(parse("org/repo"), store)
    assert (model.status, model.reason) == ("ready", None)
    assert not part.parent.exists()
