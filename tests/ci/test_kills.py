"""Each command that writes, killed once: the long form is `python -m ci.kills`."""

import os
import subprocess
import sys

import pytest

from tests.terminal import ROOT, environment


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the children are forks")
def test_whatever_is_killed_goes_on() -> None:
    # in a process of its own: this one has threads, and must not fork
    done = subprocess.run(
        [sys.executable, "-m", "ci.kills", "--count", "8", "--seed", "3"],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: passed: 8 kills, 0 with faults" in done.stdout
    assert "serve 1" in done.stdout
