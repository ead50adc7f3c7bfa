"""A store for the tests of the catalogue."""

from pathlib import Path

import pytest

from geniex_catalogue.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store, whose folder is not made yet."""
    return Store(tmp_path / "data")
