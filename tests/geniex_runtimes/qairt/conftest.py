"""Bundles, and what their answers have to be, for every test of the qairt runtime."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.qairt_bundles import QairtBundles


@pytest.fixture(scope="session")
def bundle(qairt_bundles: QairtBundles) -> Callable[..., Path]:
    """`bundle(arch=73, parts=1, context=64)`: the folder of a tiny bundle, not to be changed."""
    return qairt_bundles.folder


@pytest.fixture(scope="session")
def reference(qairt_bundles: QairtBundles) -> Callable[..., list[int]]:
    """`reference(prompt_ids, count, parts=1, context=64)`: the greedy tokens of the CPU."""
    return qairt_bundles.reference
