"""The benchmark of memory: what it reads, and when it is satisfied."""

import os
from pathlib import Path

import pytest

from ci.benchmarks import memory
from ci.benchmarks.memory import Taken

STATUS = (
    "Name:\tpython\nVmHWM:\t  103000 kB\nRssAnon:\t   72000 kB\n"
    "RssFile:\t   30000 kB\nThreads:\t4\n"
)


def took(*peaks: float) -> list[Taken]:
    return [Taken(round(peak * (1 << 20)), 1 << 20, 1 << 20, 0) for peak in peaks]


def test_sizes_are_read() -> None:
    found = memory.read_status(STATUS)
    assert found == {"VmHWM": 103000 << 10, "RssAnon": 72000 << 10, "RssFile": 30000 << 10}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the benchmark is for Linux")
def test_a_process_is_looked_at() -> None:
    found = memory.taken(os.getpid())
    assert found.peak > 10 << 20 and 0 < found.own <= found.peak


@pytest.mark.parametrize(
    ("mine", "passed"),
    [
        pytest.param((109.0, 109.0, 300.0), True, id="one-round-off"),
        pytest.param((111.0, 111.0, 50.0), False, id="one-good-round"),
    ],
)
def test_the_median_decides(
    mine: tuple[float, ...], passed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert memory.report(took(*mine), took(100.0, 100.0, 100.0)) is passed
    out = capsys.readouterr().out
    assert f"{mine[0] - 100:+.1f} MiB" in out and "xllamacpp: 100.0 MiB" in out
