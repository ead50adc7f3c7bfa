"""An AI Hub with one model, and a store to pull it into."""

import pytest

from tests.aihub import Bucket
from tests.hubserver import HubServer


@pytest.fixture
def bucket(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket that GENIEX_AIHUBBASEURL points to, with a bundle for the X Elite in it."""
    made = Bucket(hub)
    made.qwen()
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", made.base)
    return made
