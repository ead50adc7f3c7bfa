"""The fuzz lane in short: what was found stays mended, and each target takes some new inputs."""

from pathlib import Path

import pytest

from ci.fuzz.__main__ import TARGETS
from ci.fuzz.running import feed, shrunk
from ci.fuzz.target import CORPUS, Target, always

FINDINGS = [
    pytest.param(target, path, id=f"{target.name}-{path.stem}")
    for target in TARGETS.values()
    for path in target.corpus()
]


@pytest.mark.parametrize(("target", "path"), FINDINGS)
def test_what_was_found_stays_mended(target: Target, path: Path) -> None:
    with target.open() as check:
        check(path.read_bytes())


def test_every_finding_is_of_a_target() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} <= TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_a_moment_of_new_inputs(name: str) -> None:
    outcome = feed(TARGETS[name], 0.3, 5, keep=False)
    assert outcome.finding is None, outcome.finding.error
    assert outcome.inputs > 0


def test_a_fault_is_found_and_made_small() -> None:
    def check(data: bytes) -> None:
        assert b"GGU" not in data

    target = Target("x", always(check), lambda: [b"a good file", b"GG"], (b"GU", b"x"))
    outcome = feed(target, 30.0, 1, keep=False)
    assert outcome.finding is not None and outcome.finding.data == b"GGU"
    assert shrunk(b"abcdefg", lambda piece: b"d" in piece) == b"d"
