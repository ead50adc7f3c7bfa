"""A hub to download from."""

import pytest

from tests.geniex_catalogue.hubs.transfer.download import DATA
from tests.hubserver import HubServer


@pytest.fixture
def repo(hub: HubServer) -> HubServer:
    """A hub with one file of 3 MB."""
    hub.add("org/repo", {"m.gguf": DATA})
    return hub
