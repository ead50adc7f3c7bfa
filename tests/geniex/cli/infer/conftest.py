"""A scripted runtime for `geniex infer`."""

from pathlib import Path

import pytest

from tests.geniex.cli.infer.recorder import Install, Recorder


@pytest.fixture
def runtime(scripted: Install, data_dir: Path) -> Recorder:
    """The runtime that is used in the place of llama_cpp."""
    made = Recorder()
    scripted(made)
    return made
