"""What every test may use: a clean environment, the built-in model, the real instruct models."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import geniex_catalogue
from tests.hubserver import HubServer, running

if TYPE_CHECKING:
    from tests.qairt_bundles import QairtBundles

BUILTIN = Path(geniex_catalogue.__file__).parent / "builtin"
OWN_VARIABLES = ("GENIEX_", "HF_", "HUGGING_FACE_")
TEST_MODELS = "GENIEX_TEST_MODELS"

# a busy machine makes no example wrong
hypothesis.settings.register_profile("geniex", deadline=None)
hypothesis.settings.load_profile("geniex")


def pytest_collection_finish() -> None:
    """Have the collector pass over what stays until the end: thousands of tests, and modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def test_models() -> Path:
    """The folder of the real instruct models; a test that wants it skips, in CI fails, without."""
    folder = os.environ.get(TEST_MODELS)
    if folder:
        return Path(folder)
    reason = f"{TEST_MODELS} is not set; `python3 ci/test.py` fetches the models and sets it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def smollm2(test_models: Path) -> Path:
    """SmolLM2-135M-Instruct, Q4_1, 98 MB, with a chat template. For tests marked slow."""
    return test_models / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def gemma3(test_models: Path) -> Path:
    """Gemma 3 270M, Q4_K_M, 253 MB, a vocabulary of 262144 tokens. For tests marked slow."""
    return test_models / "gemma-3-270m-q4_k_m.gguf"


@pytest.fixture(scope="session")
def tiny_chat() -> Path:
    """The built-in target, 3.4 MB: a real model for every test."""
    return BUILTIN / "tiny-chat-Q8_0.gguf"


@pytest.fixture(scope="session")
def tiny_chat_draft() -> Path:
    """The MTP draft of the built-in target."""
    return BUILTIN / "tiny-chat-draft-Q8_0.gguf"


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of hand-made models and drafts, good and bad ones (tests/toys/maker.py)."""
    # gguf takes a while to import, and most tests want no toys
    from tests.toys.maker import make

    folder = tmp_path_factory.mktemp("toys")
    make(folder)
    return folder


@pytest.fixture(scope="session")
def qairt_bundles() -> "QairtBundles":
    """The tiny bundles of the qairt runtime, where the libraries that compile them are."""
    from tests.qairt_bundles import SIMULATOR_HERE, QairtBundles

    if not SIMULATOR_HERE:
        pytest.skip("bundles are compiled and simulated on x86-64 Linux alone")
    return QairtBundles()


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no folder of the person who runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith(OWN_VARIABLES) and name != TEST_MODELS:
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def clean_logging() -> Iterator[None]:
    """What a command sets up for its log ends with the test."""
    names = [None, *(name for name in logging.root.manager.loggerDict if name.startswith("geniex"))]
    before = [
        (logger, logger.level, logger.handlers[:]) for logger in map(logging.getLogger, names)
    ]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A Hugging Face hub on loopback that HF_ENDPOINT points to."""
    with running() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
