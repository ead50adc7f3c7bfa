"""The built-in tiny model, loaded once for all tests that do not change it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from tests.geniex_runtimes.llama_cpp.answers import load


@pytest.fixture(scope="session")
def tiny(tiny_chat: Path) -> Iterator[LlamaCppModel]:
    with load(tiny_chat) as model:
        yield model


@pytest.fixture(scope="session")
def tiny_slots(tiny_chat: Path) -> Iterator[LlamaCppModel]:
    with load(tiny_chat, slots=3) as model:
        yield model
