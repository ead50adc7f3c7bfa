"""The built-in tiny model in a worker, loaded once for the tests that do not harm it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp.isolated.model import IsolatedModel
from tests.geniex_runtimes.llama_cpp.isolated.workers import isolated


@pytest.fixture(scope="session")
def tiny_isolated(tiny_chat: Path) -> Iterator[IsolatedModel]:
    with isolated(tiny_chat, slots=3) as model:
        yield model


@pytest.fixture
def own_chat(tiny_chat: Path, tmp_path: Path) -> Path:
    """A file of its own for one test, so that nobody else has its worker."""
    copy = tmp_path / "own.gguf"
    copy.write_bytes(tiny_chat.read_bytes())
    return copy
