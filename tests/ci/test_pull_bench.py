"""The pull benchmark: what satisfies it, and that its hub is one that geniex can pull from."""

import shutil
from pathlib import Path

import pytest

from ci.benchmarks.pull import NAME, by_curl, by_geniex, report, running, write_model

GOOD = (1.0, 1.0, 60e6)


@pytest.mark.parametrize(
    ("results", "again", "passed"),
    [
        pytest.param([GOOD, (9.0, 1.0, 60e6), GOOD], 0.42, True, id="one-slow-round"),
        pytest.param([GOOD], None, True, id="no-kill"),
        pytest.param([(2.0, 1.0, 60e6)], 0.42, False, id="slow"),
        pytest.param([GOOD, (1.0, 1.0, 201e6)], 0.42, False, id="much-memory"),
        pytest.param([GOOD], 0.46, False, id="much-again"),
    ],
)
def test_verdict(
    results: list[tuple[float, float, float]], again: float | None, passed: bool
) -> None:
    assert report(results, again) is passed


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_both_sides_get_the_file(tmp_path: Path) -> None:
    sha256 = write_model(tmp_path / NAME, 2_000_000)
    data = (tmp_path / NAME).read_bytes()
    for folder in (ours := tmp_path / "ours", theirs := tmp_path / "theirs"):
        folder.mkdir()
    with running(tmp_path / NAME, sha256) as hub:
        assert by_geniex(hub, ours)[0] > 0
        assert by_curl(hub, theirs) > 0
        assert hub.sent() > 2 * len(data)
    assert [path.read_bytes() for path in ours.rglob(NAME)] == [data]
    assert (theirs / NAME).read_bytes() == data
