"""One file of 3 MB, and a download of it."""

import hashlib
import random
import threading
from pathlib import Path

import pytest

from geniex_catalogue.errors import HubError
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.transfer import Fetch, Fetched, fetch
from geniex_catalogue.hubs.web import Patience
from tests.hubserver import COMMIT, Fault, HubServer

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


def job(
    hub: HubServer, folder: Path, *, size: int | None = len(DATA), sha256: bool = True
) -> Fetch:
    """The download of the file, with what the hub states of it."""
    url = f"{hub.url}/org/repo/resolve/{COMMIT}/m.gguf"
    stated = SHA256 if sha256 else None
    return Fetch("m.gguf", Source(url), folder / "m.gguf.partial", size, stated)


def run(
    hub: HubServer,
    folder: Path,
    told: Told | None = None,
    *,
    span: int = 64 << 20,
    workers: int = 8,
) -> Fetched:
    """Download the file, or what is left of it."""
    return fetch([job(hub, folder)], told or Told(), QUICK, span=span, max_workers=workers)[0]


def broken_off(hub: HubServer, folder: Path) -> Path:
    """The part that a transfer leaves which broke for good after `KEPT` bytes."""
    hub.faults["cdn"] = [Fault(cut=KEPT)] + [Fault(status=503)] * 2
    with pytest.raises(HubError):
        run(hub, folder)
    part = folder / "m.gguf.partial"
    assert part.read_bytes() == DATA[:KEPT]
    hub.served = 0
    return part
