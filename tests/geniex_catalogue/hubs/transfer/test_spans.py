"""Several spans of one file at the same time: each byte once, and the faults of one are its own."""

import hashlib
import random
import threading
from pathlib import Path

import pytest

from geniex_catalogue.errors import ChecksumError, GenieXError, HubError
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.ledger import CELL
from geniex_catalogue.hubs.part import arrived
from geniex_catalogue.hubs.transfer import Fetch, fetch
from tests.geniex_catalogue.hubs.transfer.download import DATA, QUICK, SHA256, Told, job, run
from tests.geniex_catalogue.hubs.transfer.test_faults import HEALED
from tests.hubserver import COMMIT, Fault, HubServer, Place

SPAN = 500_000
LONG = random.Random(6).randbytes(3 * CELL)
AMONG_OTHERS = (
    "cut-at-once",
    "stall-at-first-byte",
    "503-from-the-hub",
    "429-without-pause",
    "signed-address-expired",
    "range-from-elsewhere",
    "416",
    "another-etag-on-206",
    "wrong-bytes-then-cut",
)


def test_each_byte_comes_once(repo: HubServer, tmp_path: Path) -> None:
    at_once = threading.Barrier(3, timeout=10)
    repo.faults["cdn"] = [Fault(), *[Fault(then=at_once.wait)] * 3]
    told = Told()
    assert run(repo, tmp_path, told, span=SPAN).path.read_bytes() == DATA
    assert repo.served == len(DATA)
    asked = sorted(it.headers["range"] for it in repo.requests("cdn"))
    assert len(asked) == 6
    assert sum(int(str(call[2])) for call in told.calls if call[0] == "advance") == len(DATA)
    assert told.threads == {threading.current_thread().name}
    after_the_first = repo.requests("cdn")[1:]
    assert {it.headers["if-range"] for it in after_the_first} == {
        f'"{hashlib.md5(DATA).hexdigest()}"'
    }


def test_one_worker_asks_one_after_the_other(repo: HubServer, tmp_path: Path) -> None:
    assert run(repo, tmp_path, span=SPAN, workers=1).sha256 == SHA256
    asked = [it.headers["range"] for it in repo.requests("cdn")]
    assert asked == [f"bytes={at}-{at + SPAN - 1}" for at in range(0, len(DATA), SPAN)]
    assert len(repo.requests("resolve")) == 1, "the address that the hub sent us to is good for all"


def test_several_files_at_once(repo: HubServer, tmp_path: Path) -> None:
    repo.add("org/repo", {f"{n}.gguf": DATA[: 1000 + n] for n in range(9)} | {"0.gguf": b""})
    jobs = []
    for name, data in repo.repos["org/repo"].files.items():
        url = f"{repo.url}/org/repo/resolve/{COMMIT}/{name}"
        digest = hashlib.sha256(data).hexdigest()
        jobs.append(Fetch(name, Source(url), tmp_path / name, len(data) or None, digest))
    got = fetch(jobs, Told(), QUICK, max_workers=3)
    assert [(it.name, it.sha256) for it in got] == [(it.name, it.sha256) for it in jobs]


@pytest.mark.parametrize(
    ("place", "faults"),
    [pytest.param(*case[1:], id=case[0]) for case in HEALED if case[0] in AMONG_OTHERS],
)
def test_faults_among_spans(
    repo: HubServer, tmp_path: Path, place: Place, faults: list[Fault]
) -> None:
    quiet = [Fault()] * 2 if place == "cdn" else []
    repo.faults[place] = [*quiet, *faults]
    assert run(repo, tmp_path, span=SPAN).path.read_bytes() == DATA


def test_an_address_that_has_expired_is_asked_for_anew(repo: HubServer, tmp_path: Path) -> None:
    plain = job(repo, tmp_path)
    source = Source(plain.source.url, {"authorization": "Bearer hf_secret"})
    repo.faults["cdn"] = [Fault(), Fault(), Fault(status=403)]
    secret = Fetch(plain.name, source, plain.part, plain.size, plain.sha256)
    assert fetch([secret], None, QUICK, span=SPAN)[0].sha256 == SHA256
    # at first and then anew; once more where a busy machine lets a span wait too long
    assert len(repo.requests("resolve")) in (2, 3)
    assert all("authorization" not in it.headers for it in repo.requests("cdn"))
    assert all(it.headers["authorization"] for it in repo.requests("resolve"))


@pytest.mark.parametrize("careless", [False, True], ids=["if-range", "if-range-ignored"])
def test_a_file_that_changes_between_spans(repo: HubServer, tmp_path: Path, careless: bool) -> None:
    """Without a stated hash: all of the file is of the new version, and it is said."""
    mirror = repo.repos["org/repo"]
    mirror.facts = False
    newer = DATA[::-1]

    def change() -> None:
        mirror.files["m.gguf"] = newer

    repo.faults["resolve"] = [Fault(), Fault(), Fault(then=change, careless=careless)]
    told = Told()
    plain = job(repo, tmp_path, size=None, sha256=False)
    assert fetch([plain], told, QUICK, span=SPAN)[0].path.read_bytes() == newer
    assert any("changed" in str(call[2]) for call in told.calls if call[0] == "retry")


def test_a_worker_that_gets_nothing_leaves_it_to_the_others(
    repo: HubServer, tmp_path: Path
) -> None:
    """As with a server that takes few connections from one address."""
    first = threading.current_thread()
    turns = iter(range(100))

    def slow() -> None:
        assert first is not threading.current_thread()
        if next(turns) < 1:
            released.wait(10)

    released = threading.Event()
    failing = [Fault(cut=0)] * (QUICK.attempts - 1) + [Fault(cut=0, then=released.set)]
    repo.faults["cdn"] = [Fault(), Fault(then=slow), *failing]
    assert run(repo, tmp_path, span=SPAN, workers=2).sha256 == SHA256


def long_job(hub: HubServer, folder: Path) -> Fetch:
    """A file of three cells."""
    hub.add("org/long", {"l.gguf": LONG})
    url = f"{hub.url}/org/long/resolve/{COMMIT}/l.gguf"
    digest = hashlib.sha256(LONG).hexdigest()
    return Fetch("l.gguf", Source(url), folder / "l.gguf.partial", len(LONG), digest)


def test_what_the_disk_has_spoilt_comes_again_and_nothing_else(
    hub: HubServer, tmp_path: Path
) -> None:
    long = long_job(hub, tmp_path)
    hub.faults["cdn"] = [Fault(cut=2 * CELL + 1000)] + [Fault(status=503)] * 2
    with pytest.raises(HubError):
        fetch([long], Told(), QUICK)
    with long.part.open("r+b") as file:
        file.seek(CELL + 5)
        file.write(b"spoilt")
    hub.served, told = 0, Told()
    assert fetch([long], told, QUICK)[0].path.read_bytes() == LONG
    assert hub.served == len(LONG) - 2 * CELL - 1000 + CELL
    assert any("not what was written" in str(call[2]) for call in told.calls if call[0] == "retry")


def test_when_the_whole_is_wrong_the_doubtful_spans_come_again(
    hub: HubServer, tmp_path: Path
) -> None:
    long = long_job(hub, tmp_path)
    wrong = Fault(body=lambda data: b"?" + data[1:], cut=CELL // 2)
    hub.faults["cdn"] = [Fault(), wrong]
    assert fetch([long], Told(), QUICK, span=CELL, max_workers=1)[0].path.read_bytes() == LONG
    # half a cell was broken off, and then the cell is fetched again
    assert hub.served <= len(LONG) + CELL


def test_one_wrong_span_is_found_among_all(hub: HubServer, tmp_path: Path) -> None:
    """Nothing about it was odd: all spans come again in order, until the whole is right."""
    long = long_job(hub, tmp_path)
    hub.faults["cdn"] = [Fault(), Fault(body=lambda data: b"?" + data[1:])]
    assert fetch([long], Told(), QUICK, span=CELL, max_workers=1)[0].path.read_bytes() == LONG
    assert hub.served == len(LONG) + 2 * CELL, "the third span was not in question any more"


def test_a_hash_that_stays_wrong_is_an_error(hub: HubServer, tmp_path: Path) -> None:
    long = long_job(hub, tmp_path)
    other = Fetch(long.name, long.source, long.part, long.size, "0" * 64)
    with pytest.raises(ChecksumError, match="sha256"):
        fetch([other], Told(), QUICK, span=CELL)
    assert arrived(long.part) == 0
    assert hub.served == 2 * len(LONG)


def test_a_size_that_stays_wrong_is_an_error(repo: HubServer, tmp_path: Path) -> None:
    plain = job(repo, tmp_path, size=len(DATA) + 9)
    with pytest.raises(ChecksumError, match="has 3000000 bytes, the hub states 3000009"):
        fetch([plain], None, QUICK, span=SPAN)


def test_an_error_of_one_file_ends_all_and_keeps_what_is_here(
    repo: HubServer, tmp_path: Path
) -> None:
    repo.repos["org/repo"].files["other.gguf"] = DATA
    gone = job(repo, tmp_path)
    lost = Fetch("gone", Source(gone.source.url + ".gone"), tmp_path / "gone", 10, None)
    repo.pace = 1_000_000
    with pytest.raises(GenieXError, match="not found"):
        fetch([gone, lost], Told(), QUICK)
    here = arrived(gone.part)
    assert gone.part.read_bytes()[:here] == DATA[:here]
    repo.pace = None
    assert run(repo, tmp_path).sha256 == SHA256
