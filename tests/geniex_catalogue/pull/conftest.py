"""A hub to pull from."""

import pytest

from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import HubServer


@pytest.fixture
def repo(hub: HubServer) -> HubServer:
    """A hub with a model in three precisions."""
    files = {f"m-{label}.gguf": gguf(n) for n, label in enumerate(["Q8_0", "Q4_0", "F16"], 3000)}
    hub.add("org/repo", {**files, "README.md": b"#"})
    return hub
