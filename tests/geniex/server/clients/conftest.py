"""Real servers for the clients that judge: the built-in pair's, and one with an instruct model."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI

from tests.geniex.server.live import ROOT, LiveServer, running

PATIENCE = 120.0  # seconds for one answer, on a machine that does other things too


@dataclass(frozen=True)
class Target:
    """A model on a server; `answer` is what it says to `QUESTION`, where that is known."""

    base_url: str
    model: str
    answer: str | None = None

    def client(self) -> OpenAI:
        """The official client; what fails is not tried again."""
        return OpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=PATIENCE)


TINY, SMOLLM2 = "geniex/tiny-chat:Q8_0", "local/smollm2:Q4_1"
DRAFT = "geniex/tiny-chat-draft:Q8_0"
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


@pytest.fixture(scope="session")
def smollm2_server(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A real server whose store has SmolLM2, too."""
    data_dir = tmp_path_factory.mktemp("smollm2")
    put_into_store(smollm2, "local/smollm2", data_dir)
    with running("--nctx", "2048", data_dir=data_dir) as server:
        yield server


@pytest.fixture(params=["tiny", pytest.param("smollm2", marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest) -> Target:
    """The built-in model; in the slow lane SmolLM2 as well."""
    if request.param == "tiny":
        live: LiveServer = request.getfixturevalue("live_server")
        return Target(live.base_url, TINY, ANSWER)
    real: LiveServer = request.getfixturevalue("smollm2_server")
    return Target(real.base_url, SMOLLM2)


@pytest.fixture
def client(target: Target) -> Iterator[OpenAI]:
    """The official client on the target's server."""
    with target.client() as client:
        yield client


def put_into_store(file: Path, name: str, data_dir: Path) -> None:
    """Have a store list a GGUF file under a name, where it lies."""
    command = ["pull", name, "--local-path", str(file), "--in-place", "--data-dir", str(data_dir)]
    subprocess.run([sys.executable, "-m", "geniex", *command], cwd=ROOT, check=True, timeout=120)


def own_process(words: list[str], *, home: Path, **environ: str) -> str:
    """What an interpreter of its own prints, run with these words in a clean environment."""
    needed = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LD_LIBRARY_PATH")
    env = {name: os.environ[name] for name in needed if name in os.environ}
    env |= {"HOME": str(home), "USERPROFILE": str(home), "PYTHONIOENCODING": "utf-8", **environ}
    finished = subprocess.run(
        [sys.executable, *words],
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=280,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
