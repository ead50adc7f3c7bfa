"""Downloads: bytes, progress and token go where they belong, and stop when told."""

import hashlib
import signal
import threading
import time
from pathlib import Path

import pytest

from geniex_catalogue.errors import DiskSpaceError, StoreError
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.transfer import Fetch, Fetched, fetch
from geniex_catalogue.hubs.web import Patience
from tests.geniex_catalogue.hubs.transfer.download import DATA, HALF, QUICK, SHA256, Told, job, run
from tests.hubserver import Fault, HubServer


def test_whole_file(repo: HubServer, tmp_path: Path) -> None:
    told = Told()
    got = run(repo, tmp_path, told)
    assert got == Fetched("m.gguf", tmp_path / "m.gguf.partial", len(DATA), SHA256)
    assert got.path.read_bytes() == DATA
    assert told.calls[0] == ("start", "m.gguf", len(DATA), 0)
    assert told.calls[-1] == ("finish", "m.gguf")
    assert sum(int(str(call[2])) for call in told.calls if call[0] == "advance") == len(DATA)
    assert told.threads == {threading.current_thread().name}


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
    assert time.monotonic() - begin < 5
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


WINDOWS = [
    pytest.param([], id="quiet"),
    pytest.param([Fault(cut=1000)], id="cut"),
    pytest.param([Fault(bare=True)], id="range-ignored"),
    pytest.param(
        [Fault(cut=1000), Fault(bare=True, cut=HALF + 2000), Fault()], id="ignored-and-cut"
    ),
    pytest.param([Fault(status=503)], id="503"),
]


@pytest.mark.parametrize("faults", WINDOWS)
@pytest.mark.parametrize("known", [True, False], ids=["hash", "no-hash"])
def test_a_window_of_a_file(
    repo: HubServer, tmp_path: Path, faults: list[Fault], known: bool
) -> None:
    repo.faults["cdn"] = list(faults)
    whole = job(repo, tmp_path)
    inner = DATA[HALF : HALF + 5000]
    source = Source(whole.source.url, first=HALF, length=len(inner))
    sha256 = hashlib.sha256(inner).hexdigest()
    got = fetch([Fetch("x", source, whole.part, 5000, sha256 if known else None)], Told(), QUICK)[0]
    assert got.path.read_bytes() == inner
    assert (got.size, got.sha256) == (5000, sha256)
