"""After any sequence of faults, kill -9 and restarts: the right bytes, or none that claim to be."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import Fault, HubServer, running

ROOT = Path(__file__).parents[4]
MODEL = gguf(300_000)
Step: TypeAlias = tuple[list[Fault], int | None]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the children are forks")


def spoilt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1]) if data else data


FAULTS = [
    Fault(),
    Fault(cut=0),
    Fault(cut=70_000),
    Fault(cut=200_000),
    Fault(cut=100_000, length=False),
    Fault(stall=0),
    Fault(stall=150_000),
    Fault(status=500),
    Fault(status=503, headers={"retry-after": "0"}),
    Fault(status=429, headers={"retry-after": "0"}),
    Fault(status=403),
    Fault(status=404),
    Fault(status=416),
    Fault(status=204),
    Fault(bare=True),
    Fault(bare=True, cut=400_000),
    Fault(careless=True),
    Fault(most=50_000),
    Fault(length=False),
    Fault(body=spoilt),
    Fault(body=spoilt, cut=120_000),
    Fault(body=lambda data: data[1:]),
    Fault(body=lambda data: data + b"x", length=False),
    Fault(body=lambda data: b"<!DOCTYPE html><html>log in</html>"),
    Fault(headers={"content-type": "text/html"}),
    Fault(headers={"content-encoding": "gzip"}),
    Fault(headers={"etag": '"other"'}),
    Fault(headers={"etag": 'W/"weak"'}),
    Fault(headers={"content-range": "bytes 5-9/77"}),
    Fault(headers={"content-range": "bytes */77"}),
    Fault(status=302, headers={"location": "/nowhere"}),
    Fault(status=302, headers={"location": "http://127.0.0.1:9/"}),
]
STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(FAULTS), max_size=5),
        st.none() | st.integers(1, len(MODEL)),
    ),
    min_size=1,
    max_size=4,
)


class Forks:
    """A hub, and processes that pull from it."""

    def __init__(self, hub: HubServer, process: "subprocess.Popen[str]") -> None:
        self.hub = hub
        self._process = process

    def pull(self, root: Path, kill_at: int | None) -> str:
        """How a pull in a process of its own ended, and whether what is left is no lie."""
        assert self._process.stdin and self._process.stdout
        question = {"root": str(root), "name": "org/repo", "kill_at": kill_at}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        for model in Store(root).list():
            whole = (model.folder / "m-F32.gguf").exists()
            assert whole == (model.status == "ready")
            assert not whole or (model.folder / "m-F32.gguf").read_bytes() == MODEL
        return str(ended)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    path = os.pathsep.join(str(ROOT / root) for root in ("catalogue", "runtimes", "."))
    with running() as hub:
        hub.add("org/repo", {"m-F32.gguf": MODEL})
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.geniex_catalogue.hubs.transfer.forks"],
            env={**os.environ, "PYTHONPATH": path, "HF_ENDPOINT": hub.url},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        yield Forks(hub, process)
        process.communicate()


@settings(
    max_examples=int(os.environ.get("GENIEX_TEST_SEQUENCES", "6")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_any_sequence_ends_right(forks: Forks, steps: list[Step]) -> None:
    with TemporaryDirectory() as name:
        for faults, kill_at in steps:
            forks.hub.faults["cdn"] = list(faults)
            forks.hub.pace = None if kill_at is None else 8_000_000
            assert forks.pull(Path(name), kill_at) in ("whole", "error", "killed")
        forks.hub.faults["cdn"], forks.hub.pace = [], None
        assert forks.pull(Path(name), None) == "whole"
        (model,) = Store(Path(name)).list()
        assert model.status == "ready"
        assert not (model.folder / ".inflight").exists()
