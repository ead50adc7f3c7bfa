"""Downloads: whatever the network does, right bytes or a clear error."""

import hashlib
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    ChecksumError,
    DiskSpaceError,
    GenieXError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    HubRateLimitError,
    StoreError,
    TransferError,
)
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.transfer import Fetch, Fetched, fetch
from geniex_catalogue.hubs.web import Patience
from tests.hubserver import COMMIT, Fault, HubServer, Place

DATA = random.Random(5).randbytes(3_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
HALF = 1_500_000
QUICK = Patience(connect=2, stall=0.5, attempts=3, first_pause=0.01, longest_pause=2)
KEPT = 1_000_000


class Told:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.threads: set[str] = set()

    def note(self, *call: object) -> None:
        self.calls.append(call)
        self.threads.add(threading.current_thread().name)

    def start(self, file: str, total: int | None, present: int) -> None:
        self.note("start", file, total, present)

    def advance(self, file: str, count: int) -> None:
        self.note("advance", file, count)

    def retry(self, file: str, reason: str, wait: float) -> None:
        self.note("retry", file, reason, wait)

    def finish(self, file: str) -> None:
        self.note("finish", file)


@pytest.fixture
def repo(hub: HubServer) -> HubServer:
    """A hub with one file of 3 MB."""
    hub.add("org/repo", {"m.gguf": DATA})
    return hub


def job(
    hub: HubServer, folder: Path, *, size: int | None = len(DATA), sha256: bool = True
) -> Fetch:
    url = f"{hub.url}/org/repo/resolve/{COMMIT}/m.gguf"
    stated = SHA256 if sha256 else None
    return Fetch("m.gguf", Source(url), folder / "m.gguf.partial", size, stated)


def run(hub: HubServer, folder: Path, told: Told | None = None) -> Fetched:
    return fetch([job(hub, folder)], told or Told(), QUICK)[0]


def broken_off(hub: HubServer, folder: Path) -> Path:
    """The part that a transfer leaves which broke for good after `KEPT` bytes."""
    hub.faults["cdn"] = [Fault(cut=KEPT)] + [Fault(status=503)] * 2
    with pytest.raises(HubError):
        run(hub, folder)
    part = folder / "m.gguf.partial"
    assert part.read_bytes() == DATA[:KEPT]
    hub.served = 0
    return part


def test_whole_file(repo: HubServer, tmp_path: Path) -> None:
    told = Told()
    got = run(repo, tmp_path, told)
    assert got == Fetched("m.gguf", tmp_path / "m.gguf.partial", len(DATA), SHA256)
    assert got.path.read_bytes() == DATA
    assert told.calls[0] == ("start", "m.gguf", len(DATA), 0)
    assert told.calls[-1] == ("finish", "m.gguf")
    assert sum(int(str(call[2])) for call in told.calls if call[0] == "advance") == len(DATA)
    assert told.threads == {threading.current_thread().name}


HEALED: list[tuple[str, Place, list[Fault]]] = [
    ("cut", "cdn", [Fault(cut=HALF)]),
    ("cut-at-once", "cdn", [Fault(cut=0)]),
    ("cut-before-last-byte", "cdn", [Fault(cut=len(DATA) - 1)]),
    ("cut-without-length", "cdn", [Fault(cut=HALF, length=False)]),
    ("cut-often", "cdn", [Fault(cut=n * 100_000) for n in range(1, 8)]),
    ("stall-at-first-byte", "cdn", [Fault(stall=0)]),
    ("stall-at-99-percent", "cdn", [Fault(stall=2_970_000)]),
    ("500", "cdn", [Fault(status=500)]),
    ("503-from-the-hub", "resolve", [Fault(status=503), Fault(status=502)]),
    ("408", "cdn", [Fault(status=408)]),
    ("429-with-pause", "resolve", [Fault(status=429, headers={"retry-after": "1"})]),
    ("429-of-the-hub", "resolve", [Fault(status=429, headers={"ratelimit": '"api";r=0;t=1'})]),
    ("429-without-pause", "cdn", [Fault(status=429)]),
    ("503-until-a-date", "cdn", [Fault(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})]),
    ("signed-address-expired", "cdn", [Fault(status=403)]),
    ("no-length", "cdn", [Fault(length=False)]),
    ("range-ignored", "cdn", [Fault(cut=HALF), Fault(bare=True)]),
    ("range-ignored-and-cut", "cdn", [Fault(cut=HALF), Fault(bare=True, cut=100), Fault()]),
    (
        "range-from-elsewhere",
        "cdn",
        [
            Fault(cut=HALF),
            Fault(headers={"content-range": "bytes 7-9/99"}, body=lambda b: b"?" + b[1:]),
        ],
    ),
    ("range-unstated", "cdn", [Fault(cut=HALF), Fault(headers={"content-range": "bytes"})]),
    ("416", "cdn", [Fault(cut=HALF), Fault(status=416)]),
    ("another-etag-on-206", "cdn", [Fault(cut=HALF), Fault(headers={"etag": '"other"'})]),
    ("weak-etag", "cdn", [Fault(cut=HALF, headers={"etag": 'W/"x"'})]),
    ("wrong-bytes-then-cut", "cdn", [Fault(body=lambda b: b"X" + b[1:], cut=HALF)]),
]


@pytest.mark.parametrize(
    ("place", "faults"), [pytest.param(*case[1:], id=case[0]) for case in HEALED]
)
def test_faults_end_in_right_bytes(
    repo: HubServer, tmp_path: Path, place: Place, faults: list[Fault]
) -> None:
    repo.faults[place] = list(faults)
    assert run(repo, tmp_path).path.read_bytes() == DATA
    assert not repo.faults[place], "a fault did not happen"


# without a length or right bytes there is nothing left to tell by
TELLABLE = [
    case for case in HEALED if case[0] not in ("cut-without-length", "wrong-bytes-then-cut")
]


@pytest.mark.parametrize(
    "faults", [pytest.param(case[2], id=case[0]) for case in TELLABLE if case[1] == "cdn"]
)
def test_faults_where_the_hub_states_no_hash(
    repo: HubServer, tmp_path: Path, faults: list[Fault]
) -> None:
    repo.repos["org/repo"].facts = False
    # a refusal by the hub itself is final
    repo.faults["resolve"] = [fault for fault in faults if fault.status != 403]
    got = fetch([job(repo, tmp_path, size=None, sha256=False)], Told(), QUICK)[0]
    assert got.path.read_bytes() == DATA


REFUSED: list[tuple[str, Place, Fault, type[GenieXError], str]] = [
    ("401", "resolve", Fault(status=401), HubNotFoundError, "or private"),
    (
        "bad-token",
        "resolve",
        Fault(401, {"x-error-message": "Invalid credentials in Authorization header"}),
        HubAuthError,
        "token",
    ),
    ("403", "resolve", Fault(status=403), HubAuthError, "gated or private"),
    ("gated", "resolve", Fault(401, {"x-error-code": "GatedRepo"}), HubAuthError, "gated"),
    (
        "disabled",
        "resolve",
        Fault(403, {"x-error-message": "Access to this resource is disabled."}),
        HubError,
        "switched off",
    ),
    ("404", "resolve", Fault(status=404), HubNotFoundError, "not found"),
    ("400", "resolve", Fault(status=400), HubError, "answered 400"),
    ("429-for-an-hour", "cdn", Fault(429, {"retry-after": "3600"}), HubRateLimitError, "slow down"),
    ("500-for-ever", "cdn", Fault(status=500), HubError, "answered 500"),
    ("cut-for-ever", "cdn", Fault(cut=0), TransferError, "broke"),
    ("stall-for-ever", "cdn", Fault(stall=0), TransferError, "sends nothing"),
    ("403-for-ever", "cdn", Fault(status=403), TransferError, "answered 403"),
    ("204", "cdn", Fault(status=204), TransferError, "answered 204"),
    ("206-unasked", "cdn", Fault(status=206), TransferError, "answered 206"),
    (
        "web-page",
        "cdn",
        Fault(headers={"content-type": "text/html; charset=utf-8"}, body=lambda b: b"<html>"),
        TransferError,
        "web page",
    ),
    ("gzip", "cdn", Fault(headers={"content-encoding": "gzip"}), TransferError, "encoded"),
    ("other-size", "cdn", Fault(body=lambda b: b[:-1]), ChecksumError, "2999999 bytes"),
    ("too-long", "cdn", Fault(body=lambda b: b + b"x", length=False), ChecksumError, "more than"),
    ("other-bytes", "cdn", Fault(body=lambda b: b[:-1] + b"?"), ChecksumError, "sha256"),
    ("redirect-loop", "resolve", Fault(302, {"location": "/x/y"}), HubError, "redirects"),
    (
        "redirect-to-a-file",
        "resolve",
        Fault(302, {"location": "file:///etc/passwd"}),
        GenieXError,
        "",
    ),
]


@pytest.mark.parametrize(
    ("place", "fault", "error", "text"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED]
)
def test_faults_that_stay_are_clear_errors(
    repo: HubServer,
    tmp_path: Path,
    place: Place,
    fault: Fault,
    error: type[GenieXError],
    text: str,
) -> None:
    repo.faults[place] = [fault] * 30
    if fault.headers.get("location") == "/x/y":
        repo.faults["cdn"] = [fault] * 30
    with pytest.raises(error) as caught:
        run(repo, tmp_path)
    assert text in caught.value.message
    assert "s3cret" not in str(caught.value)


def test_wrong_bytes_are_not_kept(repo: HubServer, tmp_path: Path) -> None:
    repo.faults["cdn"] = [Fault(body=lambda data: data[:-1] + b"?")]
    with pytest.raises(ChecksumError):
        run(repo, tmp_path)
    assert (tmp_path / "m.gguf.partial").stat().st_size == 0
    assert run(repo, tmp_path).path.read_bytes() == DATA


def test_nobody_there(tmp_path: Path) -> None:
    lost = Fetch("m.gguf", Source("http://127.0.0.1:9/m.gguf"), tmp_path / "p", 10, None)
    with pytest.raises(HubOfflineError, match="cannot be reached"):
        fetch([lost], Told(), QUICK)


def test_resume_fetches_only_the_rest(repo: HubServer, tmp_path: Path) -> None:
    broken_off(repo, tmp_path)
    told = Told()
    assert run(repo, tmp_path, told).path.read_bytes() == DATA
    assert repo.served == len(DATA) - KEPT
    assert told.calls[0] == ("start", "m.gguf", len(DATA), KEPT)
    last = repo.requests("cdn")[-1].headers
    assert last["accept-encoding"] == "identity"
    assert last["range"] == f"bytes={KEPT}-"
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


def test_facts_from_headers_when_the_listing_has_none(repo: HubServer, tmp_path: Path) -> None:
    told = Told()
    repo.faults["cdn"] = [Fault(body=lambda data: data[:-1] + b"?")]
    with pytest.raises(ChecksumError):
        fetch([job(repo, tmp_path, size=None, sha256=False)], told, QUICK)
    repo.faults["cdn"] = [Fault(cut=HALF, length=False)]
    got = fetch([job(repo, tmp_path, size=None, sha256=False)], told, QUICK)[0]
    assert got.path.read_bytes() == DATA


def test_the_token_stays_with_its_host(repo: HubServer, tmp_path: Path) -> None:
    plain = job(repo, tmp_path)
    headers = {"authorization": "Bearer hf_secret"}
    source = Source(plain.source.url, headers)
    fetch([Fetch(plain.name, source, plain.part, plain.size, plain.sha256)], Told(), QUICK)
    assert repo.requests("resolve")[0].headers["authorization"] == "Bearer hf_secret"
    assert "authorization" not in repo.requests("cdn")[0].headers
    assert "hf_secret" not in repr(source)


def test_retries_are_told(repo: HubServer, tmp_path: Path) -> None:
    repo.faults["cdn"] = [Fault(stall=HALF)]
    told = Told()
    run(repo, tmp_path, told)
    retries = [call for call in told.calls if call[0] == "retry"]
    assert len(retries) == 1
    assert "sends nothing" in str(retries[0][2])


def test_interrupt_during_a_stall_returns_at_once(repo: HubServer, tmp_path: Path) -> None:
    repo.faults["cdn"] = [Fault(stall=HALF)]
    patient = Patience(stall=30)
    threading.Timer(0.8, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch([job(repo, tmp_path)], Told(), patient)
    assert time.monotonic() - begin < 1.5
    part = tmp_path / "m.gguf.partial"
    assert part.read_bytes() == DATA[:HALF]
    repo.served = 0
    assert run(repo, tmp_path).path.read_bytes() == DATA
    assert repo.served == len(DATA) - HALF


def test_progress_may_stop_the_transfer(repo: HubServer, tmp_path: Path) -> None:
    class Tired(Told):
        def advance(self, file: str, count: int) -> None:
            raise RuntimeError("enough")

    repo.pace = 3_000_000
    with pytest.raises(RuntimeError, match="enough"):
        run(repo, tmp_path, Tired())
    length = (tmp_path / "m.gguf.partial").stat().st_size
    assert length < len(DATA)
    time.sleep(0.3)
    assert (tmp_path / "m.gguf.partial").stat().st_size == length, "written after its caller left"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_disk_full_is_an_error_at_once(repo: HubServer, tmp_path: Path) -> None:
    (tmp_path / "m.gguf.partial").symlink_to("/dev/full")
    with pytest.raises(DiskSpaceError) as caught:
        run(repo, tmp_path)
    assert caught.value.needed == len(DATA)
    assert len(repo.requests("cdn")) == 1, "asked again although the disk is full"


def test_a_folder_that_cannot_be_made(repo: HubServer, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(StoreError, match="cannot be written"):
        fetch([job(repo, tmp_path / "folder")], Told(), QUICK)
