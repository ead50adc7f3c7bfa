"""Resumption: only the rest comes, and never of another version."""

import hashlib
import json
from pathlib import Path

import pytest

from geniex_catalogue.errors import HubError
from geniex_catalogue.hubs.transfer import fetch
from tests.geniex_catalogue.hubs.transfer.download import (
    DATA,
    KEPT,
    QUICK,
    SHA256,
    Told,
    broken_off,
    job,
    run,
)
from tests.hubserver import Fault, HubServer


def test_resume_fetches_only_the_rest(repo: HubServer, tmp_path: Path) -> None:
    broken_off(repo, tmp_path)
    told = Told()
    assert run(repo, tmp_path, told).path.read_bytes() == DATA
    assert repo.served == len(DATA) - KEPT
    assert told.calls[0] == ("start", "m.gguf", len(DATA), KEPT)
    last = repo.requests("cdn")[-1].headers
    assert last["accept-encoding"] == "identity"
    assert last["range"] == f"bytes={KEPT}-{len(DATA) - 1}"
    assert last["if-range"] == f'"{hashlib.md5(DATA).hexdigest()}"'


def test_resume_where_the_hub_states_nothing(repo: HubServer, tmp_path: Path) -> None:
    repo.repos["org/repo"].facts = False
    repo.faults["resolve"] = [Fault(cut=KEPT)] + [Fault(status=503)] * 2
    plain = job(repo, tmp_path, size=None, sha256=False)
    with pytest.raises(HubError):
        fetch([plain], Told(), QUICK)
    repo.served = 0
    assert fetch([plain], Told(), QUICK)[0].path.read_bytes() == DATA
    assert repo.served == len(DATA) - KEPT


def test_the_part_of_an_older_geniex_is_gone_on_from(repo: HubServer, tmp_path: Path) -> None:
    """It grew at its end alone, and nothing was noted but the version."""
    etag = hashlib.md5(DATA).hexdigest()
    facts = {"etag": f'"{etag}"', "sha256": SHA256, "size": len(DATA)}
    (tmp_path / "m.gguf.partial").write_bytes(DATA[:KEPT])
    (tmp_path / "m.gguf.partial.json").write_text(json.dumps(facts))
    assert run(repo, tmp_path).path.read_bytes() == DATA
    assert repo.served == len(DATA) - KEPT


def test_the_ledger_of_a_newer_geniex_is_not_guessed_at(repo: HubServer, tmp_path: Path) -> None:
    part = broken_off(repo, tmp_path)
    ledger = part.with_name(part.name + ".json")
    ledger.write_text(ledger.read_text().replace('"format": 2', '"format": 3'))
    assert run(repo, tmp_path).path.read_bytes() == DATA
    assert repo.served == len(DATA)


def test_a_whole_part_asks_for_nothing(repo: HubServer, tmp_path: Path) -> None:
    run(repo, tmp_path)
    asked = len(repo.seen)
    assert run(repo, tmp_path).sha256 == SHA256
    assert len(repo.seen) == asked


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda part: part.write_bytes(b"?" * KEPT), id="other-bytes"),
        pytest.param(lambda part: part.write_bytes(DATA + b"?"), id="too-long"),
        pytest.param(lambda part: part.with_name(part.name + ".json").unlink(), id="facts-gone"),
        pytest.param(
            lambda part: part.with_name(part.name + ".json").write_text("[1"), id="facts-damaged"
        ),
        pytest.param(
            lambda part: part.with_name(part.name + ".json").write_text(
                '{"etag": "\\"x\\"", "sha256": "00", "size": 3000000}'
            ),
            id="facts-of-another-file",
        ),
    ],
)
def test_a_spoilt_part_is_fetched_again(repo: HubServer, tmp_path: Path, harm: object) -> None:
    part = broken_off(repo, tmp_path)
    assert callable(harm)
    harm(part)
    assert run(repo, tmp_path).path.read_bytes() == DATA


@pytest.mark.parametrize("careless", [False, True], ids=["if-range", "if-range-ignored"])
def test_a_file_that_changed_is_not_mixed(repo: HubServer, tmp_path: Path, careless: bool) -> None:
    """Where the hub states no hash, the entity tag alone must tell old bytes from new ones."""
    repo.repos["org/repo"].facts = False
    repo.faults["resolve"] = [Fault(cut=KEPT)] + [Fault(status=503)] * 2
    with pytest.raises(HubError):
        fetch([job(repo, tmp_path, size=None, sha256=False)], Told(), QUICK)
    newer = DATA[::-1]
    repo.repos["org/repo"].files["m.gguf"] = newer
    repo.faults["resolve"] = [Fault(careless=careless)]
    got = fetch([job(repo, tmp_path, size=None, sha256=False)], Told(), QUICK)[0]
    assert got.path.read_bytes() == newer
    assert got.sha256 == hashlib.sha256(newer).hexdigest()


def test_a_range_that_begins_elsewhere_is_not_taken(repo: HubServer, tmp_path: Path) -> None:
    """Also where no hash could tell afterwards."""
    repo.repos["org/repo"].facts = False
    elsewhere = {"content-range": f"bytes 7-{len(DATA) - 1}/{len(DATA)}"}
    repo.faults["resolve"] = [
        Fault(cut=KEPT),
        Fault(headers=elsewhere, body=lambda data: data[::-1]),
    ]
    got = fetch([job(repo, tmp_path, size=None, sha256=False)], Told(), QUICK)[0]
    assert got.path.read_bytes() == DATA
