"""A release's documents: from the hub, from the cache, and from an older release."""

import os
import time
from pathlib import Path

import pytest

from geniex_catalogue.errors import HubError, HubNotFoundError, HubOfflineError, UsageError
from geniex_catalogue.hubs.aihub import AIHub
from geniex_catalogue.hubs.aihub_release import Release
from geniex_catalogue.hubs.web import Patience
from tests.aihub import X_ELITE, Bucket, model
from tests.hubserver import Fault

QUICK = Patience(connect=2.0, stall=2.0, attempts=1, first_pause=0.01, longest_pause=0.02)


def release(folder: Path, version: str | None = None) -> Release:
    return AIHub(folder, QUICK).release(version)


def names(folder: Path, version: str | None = None) -> list[str]:
    return [found.name for found in release(folder, version).index().models]


def grow_old(folder: Path, hours: float) -> None:
    for path in (folder / "aihub").rglob("*.json"):
        then = time.time() - hours * 3600
        os.utime(path, (then, then))


def test_lists_are_kept_for_an_hour(bucket: Bucket, tmp_path: Path) -> None:
    for _ in range(3):
        found = release(tmp_path)
        assert found.index().models[0].name == "Qwen3-4B"
        assert found.platform().find("sc8380xp") is not None
        assert found.assets(found.index().models[0])[0].chipset == X_ELITE
        assert found.notes == []
    assert len(bucket.hub.seen) == 3
    grow_old(tmp_path, 1.1)
    bucket.release(model("Newer"))
    assert names(tmp_path) == ["Newer"]


def test_the_cache_keeps_releases_and_places_apart(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.release(model("Older"), name="v0.59.0")
    assert names(tmp_path) == ["Qwen3-4B"]
    assert names(tmp_path, "v0.59.0") == ["Older"]
    monkeypatch.setenv("GENIEX_AIHUBVERSION", "0.59.0")
    assert names(tmp_path) == ["Older"]
    assert names(tmp_path, "latest") == ["Qwen3-4B"]
    mirror = bucket.base.replace("qai-hub-models", "mirror")
    bucket.files["mirror/releases/v0.59.0/manifest.json"] = bucket.files[
        "qai-hub-models/releases/latest/manifest.json"
    ]
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", mirror + "/")
    assert names(tmp_path) == ["Qwen3-4B"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(status=403), id="403"),
        pytest.param(Fault(status=404), id="404"),
        pytest.param(Fault(status=503), id="503"),
        pytest.param(Fault(body=lambda data: b"<html>"), id="no json"),
        pytest.param(Fault(headers={"content-type": "text/html"}), id="web page"),
    ],
)
def test_a_known_release_where_there_is_no_latest(
    bucket: Bucket, tmp_path: Path, fault: Fault
) -> None:
    bucket.release(model("Known"), name="v0.60.0")
    bucket.hub.faults["cdn"] = [fault]
    found = release(tmp_path)
    assert [entry.name for entry in found.index().models] == ["Known"]
    assert found.platform().find(X_ELITE) is not None
    assert "v0.60.0" in found.notes[0]
    # what could not be read is not kept
    assert names(tmp_path) == ["Qwen3-4B"]


def test_a_release_that_is_not_there(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(HubNotFoundError, match=r"manifest\.json is not on"):
        release(tmp_path, "v9.9.9").index()


def test_an_old_list_serves_without_a_network(bucket: Bucket, tmp_path: Path) -> None:
    names(tmp_path)
    grow_old(tmp_path, 30)
    bucket.hub.close()
    found = release(tmp_path)
    assert found.index().models[0].name == "Qwen3-4B"
    assert found.notes == ["the AI Hub cannot be reached; its lists are from 30 hours ago"]
    with pytest.raises(HubOfflineError):
        release(tmp_path / "other").index()


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "GENIEX_OFFLINE"])
def test_offline_asks_nobody(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(HubOfflineError, match=variable):
        release(tmp_path).index()
    assert bucket.hub.seen == []


def test_a_spoilt_cache_is_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    names(tmp_path)
    for path in (tmp_path / "aihub").rglob("*.json"):
        path.write_text("{")
    assert names(tmp_path) == ["Qwen3-4B"]


def test_a_cache_that_cannot_be_written(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "aihub").write_text("a file")
    assert names(tmp_path) == ["Qwen3-4B"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("GENIEX_AIHUBBASEURL", "nowhere"), ("GENIEX_AIHUBVERSION", "../../x")],
)
def test_variables_that_make_no_sense(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match="is no"):
        release(tmp_path)


def test_assets_that_are_no_list(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("models/qwen3_4b/assets.json", b"[]")
    found = release(tmp_path)
    with pytest.raises(HubError, match="list of assets"):
        found.assets(found.index().models[0])
