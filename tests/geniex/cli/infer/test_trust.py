"""`--trust`: from a flag, a variable, the settings, a keyword to the load; never by itself."""

from pathlib import Path

import pytest

import geniex
from geniex_runtimes.fake import FakeRuntime
from tests.cliharness import Cli
from tests.geniex.conftest import Scripted

MODEL = "geniex/tiny-chat"


@pytest.fixture
def runtime(scripted: Scripted) -> FakeRuntime:
    """A scripted runtime."""
    return scripted(FakeRuntime(name="llama_cpp"))


@pytest.mark.parametrize(
    ("variable", "flags", "trusted"),
    [
        pytest.param(None, (), False, id="by itself"),
        pytest.param(None, ("--trust",), True, id="flag"),
        pytest.param("yes", (), True, id="variable"),
        pytest.param("yes", ("--no-trust",), False, id="flag against variable"),
    ],
)
def test_what_is_trusted(
    cli: Cli,
    data_dir: Path,
    runtime: FakeRuntime,
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    flags: tuple[str, ...],
    trusted: bool,
) -> None:
    if variable:
        monkeypatch.setenv("GENIEX_TRUST", variable)
    assert cli("infer", MODEL, "-p", "hi", *flags).code == 0
    assert runtime.loads[-1].trust == trusted
    assert runtime.loads[-1].tries_out != trusted


def test_in_python(data_dir: Path, runtime: FakeRuntime) -> None:
    geniex.load(MODEL, trust=True).close()
    assert runtime.loads[-1].trust
