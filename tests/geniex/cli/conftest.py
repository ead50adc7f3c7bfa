"""The console command in this process, with its streams and its exit code."""

import sys
from pathlib import Path

import pytest

from geniex.cli.app import run
from tests.cliharness import Cli, Result


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run `geniex ARGS...`, with `stdin` as what is piped in."""

    def call(*args: str, stdin: bytes = b"") -> Result:
        file = tmp_path / "stdin"
        file.write_bytes(stdin)
        with file.open("r", encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            code = run(args)
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder that commands use."""
    path = tmp_path / "data"
    monkeypatch.setenv("GENIEX_DATADIR", str(path))
    return path
