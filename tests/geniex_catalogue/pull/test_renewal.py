"""Checked, repaired, updated: only what is wrong or has changed comes again."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from geniex_catalogue.errors import HubOfflineError, StoreError, UsageError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, execute, pull
from geniex_catalogue.renewal import plan_repairs, plan_updates
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from geniex_catalogue.verification import check
from tests.geniex_catalogue.pull.models import gguf, shards
from tests.hubserver import COMMIT, HubServer

BLOCK = 4 << 20


def damage(path: Path, at: int) -> None:
    """Turn one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def found(store: Store, name: str = "org/repo") -> StoredModel:
    model = store.find(parse(name))
    assert model is not None
    return model


def test_a_check_says_what_it_compared(repo: HubServer, store: Store) -> None:
    model = pull(parse("org/repo"), store)
    report = check(model)
    assert (report.status, report.hashed, report.faults) == ("ok", ("m-Q4_0.gguf",), ())
    damage(model.folder / "m-Q4_0.gguf", 3000)
    (fault,) = check(found(store)).faults
    assert "sha256" in fault.reason and fault.record is not None


def test_one_wrong_byte_of_a_large_file_costs_one_block(hub: HubServer, store: Store) -> None:
    data = gguf(BLOCK)  # four blocks and a little
    hub.add("org/repo", {"m-Q8_0.gguf": data})
    model = pull(parse("org/repo"), store)
    damage(model.folder / "m-Q8_0.gguf", 2 * BLOCK + 5)
    hub.served = 0
    (plan,) = plan_repairs(check(found(store)), store)
    assert [job.name for job in plan.fetches] == ["m-Q8_0.gguf"]
    execute(plan, store)
    # the block, and the header that the choice reads
    assert hub.served < 2 * BLOCK < len(data)
    assert store.verify(model.ref) == ()
    assert (model.folder / "m-Q8_0.gguf").read_bytes() == data


@pytest.mark.parametrize("how", ["wrong", "short", "gone", "long"])
def test_a_damaged_part_of_a_set_comes_again_alone(hub: HubServer, store: Store, how: str) -> None:
    files = shards(3)
    hub.add("org/repo", files)
    model = pull(parse("org/repo"), store)
    bad = model.folder / list(files)[1]
    if how == "wrong":
        damage(bad, 300)
    elif how == "gone":
        bad.unlink()
    else:
        bad.write_bytes(bad.read_bytes()[:200] if how == "short" else bad.read_bytes() + b"x")
    report = check(found(store))
    assert report.status == "damaged"
    (plan,) = plan_repairs(report, store)
    assert [job.name for job in plan.fetches] == [bad.name]
    assert execute(plan, store).precisions == ("Q4_0",)
    assert store.verify(model.ref) == ()
    assert {path.name for path in model.folder.iterdir()} >= set(files)


def test_a_file_that_others_hold_too_is_not_changed_under_them(
    repo: HubServer, store: Store, tmp_path: Path
) -> None:
    model = pull(parse("org/repo"), store)
    file = model.folder / "m-Q4_0.gguf"
    damage(file, 3000)
    other = tmp_path / "other.gguf"
    other.hardlink_to(file)
    wrong = other.read_bytes()
    for plan in plan_repairs(check(found(store)), store):
        execute(plan, store)
    assert other.read_bytes() == wrong
    assert store.verify(model.ref) == ()


def test_what_no_hub_has_is_not_repaired(store: Store, tmp_path: Path) -> None:
    mine = tmp_path / "mine-Q8_0.gguf"
    mine.write_bytes(gguf())
    model = import_path(parse("local/mine"), mine, store)
    (model.folder / "mine-Q8_0.gguf").write_bytes(gguf()[:-4])
    report = check(found(store, "local/mine"))
    assert report.status == "damaged"
    with pytest.raises(UsageError, match="came from this machine"):
        plan_repairs(report, store)
    (model.folder / "geniex.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be repaired"):
        plan_repairs(check(found(store, "local/mine")), store)


def test_an_update_takes_what_has_changed(hub: HubServer, store: Store) -> None:
    files = shards(3)
    repo = hub.add("org/repo", files)
    model = pull(parse("org/repo"), store)
    (plan,) = plan_updates(model, None, store)
    assert plan.present == model
    last = list(files)[2]
    repo.files[last] = newer = gguf(102, split__count=3, split__no=2, general__name="newer")
    repo.commit = "beef" * 10
    (plan,) = plan_updates(model, None, store)
    assert [job.name for job in plan.fetches] == [last]
    updated = execute(plan, store)
    assert (updated.folder / last).read_bytes() == newer
    assert {record.revision for record in updated.records("Q4_0")} == {repo.commit}
    assert updated.records("Q4_0")[2].sha256 == hashlib.sha256(newer).hexdigest()
    assert store.verify(model.ref) == ()


def test_a_cache_without_hashes_is_read_before_it_is_fetched_again(
    hub: HubServer, store: Store
) -> None:
    files = shards(2)
    hub.add("org/repo", files)
    folder = store.models / "org" / "repo"
    folder.mkdir(parents=True)
    first, second = files
    records = [{"Name": name, "Downloaded": True, "Size": len(files[name])} for name in files]
    theirs = {"Name": "org/repo", "PluginId": "llama_cpp", "ModelFile": {"Q4_0": records[0]}}
    (folder / "geniex.json").write_text(json.dumps({**theirs, "ExtraFiles": records[1:]}))
    (folder / first).write_bytes(files[first])
    (folder / second).write_bytes(bytes(len(files[second])))
    (plan,) = plan_updates(found(store), None, store)
    assert [job.name for job in plan.fetches] == [second]
    model = execute(plan, store)
    assert all(record.sha256 for record in model.records("Q4_0"))
    assert store.verify(model.ref) == ()


def test_the_old_stays_until_the_new_is_whole(repo: HubServer, store: Store) -> None:
    model = pull(parse("org/repo:Q4_0"), store)
    old = (model.folder / "m-Q4_0.gguf").read_bytes()
    repo.repos["org/repo"].files["m-Q4_0.gguf"] = gguf(5000)
    (plan,) = plan_updates(model, "Q4_0", store)
    repo.repos["org/repo"].files["m-Q4_0.gguf"] = b"GGUF, but no model" * 1000
    with pytest.raises(Exception):  # noqa: B017
        execute(plan, store)
    assert (model.folder / "m-Q4_0.gguf").read_bytes() == old
    assert found(store).precisions == ("Q4_0",)


def test_nothing_is_looked_for_offline(repo: HubServer, store: Store) -> None:
    model = pull(parse("org/repo"), store)
    repo.seen.clear()
    with pytest.raises(HubOfflineError, match="--offline"):
        plan_updates(model, None, store, PullWish(offline=True))
    damage(model.folder / "m-Q4_0.gguf", 3000)
    with pytest.raises(HubOfflineError):
        plan_repairs(check(found(store)), store, PullWish(offline=True))
    assert not repo.seen


def test_a_repair_takes_the_revision_that_was_pulled(repo: HubServer, store: Store) -> None:
    model = pull(parse("org/repo"), store)
    (model.folder / "m-Q4_0.gguf").unlink()
    (plan,) = plan_repairs(check(found(store)), store)
    assert plan.revision == COMMIT
    assert replace(plan, fetches=()).total == 0
