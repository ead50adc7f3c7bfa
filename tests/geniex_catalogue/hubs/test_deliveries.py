"""What hubs choose by themselves is repaired and updated like everything else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex_catalogue.hubs.contract import Machine
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, execute, pull
from geniex_catalogue.renewal import plan_repairs, plan_updates
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from geniex_catalogue.verification import check
from tests.aihub import BUNDLE, X_ELITE, Bucket, asset, assets, zipped
from tests.dockerhub import GGUF, TEMPLATE, Registry, running
from tests.ggufwriter import small
from tests.hubserver import HubServer

WISH = PullWish(machine=Machine(X_ELITE, 73))
DOCKER = "docker.io/ai/m:360M-f16"


@pytest.fixture
def bundle(hub: HubServer, monkeypatch: pytest.MonkeyPatch, store: Store) -> StoredModel:
    """A bundle that was pulled."""
    bucket = Bucket(hub)
    bucket.qwen()
    bucket.release(name="v0.60.0")
    bucket.files["qai-hub-models/releases/v0.60.0/manifest.json"] = bucket.files[
        "qai-hub-models/releases/latest/manifest.json"
    ]
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", bucket.base)
    return pull(parse("ai-hub-models/Qwen3-4B"), store, WISH)


@pytest.fixture
def registry(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry with a model."""
    with running(hub) as made:
        made.model("ai/m", "360M-f16", made.layer(GGUF, small()), made.layer(TEMPLATE, b"{{ x }}"))
        monkeypatch.setenv("GENIEX_DOCKERBASEURL", made.url)
        yield made


def spoil(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])


def repaired(store: Store, model: StoredModel) -> list[str]:
    """What was fetched again; afterwards all is right, and nothing is unknown of it."""
    fetched = []
    report = check(model)
    assert report.faults
    for plan in plan_repairs(report, store, WISH):
        fetched += [job.name for job in plan.fetches]
        execute(plan, store)
    after = store.find(model.ref)
    assert after is not None and after.manifest is not None
    assert after.precisions == model.precisions
    assert all(r.downloaded and r.sha256 and r.revision for r in after.manifest.files())
    assert not check(after).faults
    return fetched


@pytest.mark.parametrize("name", ["qwen3_4b_part_2_of_2.bin", "tokenizer.json"])
def test_a_file_of_a_bundle_is_repaired(store: Store, bundle: StoredModel, name: str) -> None:
    spoil(bundle.folder / name)
    assert repaired(store, bundle) == [name]
    assert (bundle.folder / name).read_bytes() == BUNDLE[name]


def test_a_missing_file_of_a_bundle_comes_again(store: Store, bundle: StoredModel) -> None:
    (bundle.folder / "metadata.json").unlink()
    there = store.find(bundle.ref)
    assert there is not None
    assert [job.name for plan in plan_repairs(check(there), store, WISH) for job in plan.fetches]


def test_a_bundle_is_updated(store: Store, bundle: StoredModel, hub: HubServer) -> None:
    (plan,) = plan_updates(bundle, None, store, WISH)
    assert plan.present is not None
    newer = BUNDLE | {"tokenizer.json": b"newer" * 1300}
    assert len(newer["tokenizer.json"]) == len(BUNDLE["tokenizer.json"])
    bucket = hub.repos["bucket"].files
    bucket["qai-hub-models/models/qwen3_4b/releases/v0.61.0/q.zip"] = zipped(newer)
    url = f"{hub.cdn}/x/bucket/qai-hub-models/models/qwen3_4b/releases/v0.61.0/q.zip"
    bucket["qai-hub-models/models/qwen3_4b/assets.json"] = assets(asset(X_ELITE, url=url))
    for path in (store.root / "aihub").rglob("*.json"):
        path.unlink()
    (plan,) = plan_updates(bundle, None, store, WISH)
    execute(plan, store)
    assert (bundle.folder / "tokenizer.json").read_bytes() == newer["tokenizer.json"]


def test_a_model_of_docker_hub(store: Store, registry: Registry) -> None:
    model = pull(parse(DOCKER), store)
    spoil(model.folder / "360M-F16" / "model.gguf")
    # the tag means another model by now: a repair takes the one that is here
    registry.model("ai/m", "360M-f16", registry.layer(GGUF, small() + bytes(9)))
    assert repaired(store, model) == ["360M-F16/model.gguf"]
    assert (model.folder / "360M-F16" / "model.gguf").read_bytes() == small()
    after = store.find(model.ref)
    assert after is not None
    (plan,) = plan_updates(after, None, store)
    assert [job.name for job in plan.fetches] == ["360M-F16/model.gguf"]
    execute(plan, store)
    assert (model.folder / "360M-F16" / "model.gguf").read_bytes() == small() + bytes(9)
    assert not (model.folder / "360M-F16" / "chat_template.jinja").exists()
