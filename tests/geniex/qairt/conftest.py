"""Bundles on the simulator behind a real server: one server and one bundle for all tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from openai import OpenAI

from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store
from tests.geniex.cli.conftest import cli as cli
from tests.geniex.cli.conftest import data_dir as data_dir
from tests.geniex.qairt.faults import FAULTS
from tests.geniex.server.live import PATIENCE, LiveServer, running

if TYPE_CHECKING:
    from tests.qairt_bundles import QairtBundles

MODEL, SHORT = "local/tiny", "local/short"
CONTEXT = 512


def workers(process: int) -> list[psutil.Process]:
    """The worker processes of a server."""
    children = psutil.Process(process).children(recursive=True)
    return [child for child in children if "geniex_runtimes.qairt.worker" in child.cmdline()]


def zombies(process: int) -> list[psutil.Process]:
    """Its children that have ended and that nobody has asked for."""
    children = psutil.Process(process).children(recursive=True)
    return [child for child in children if child.status() == psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="session")
def bundle(qairt_bundles: "QairtBundles") -> Path:
    """The bundle that all of these tests ask, as a folder."""
    return qairt_bundles.folder(context=CONTEXT)


@pytest.fixture(scope="session")
def served(
    qairt_bundles: "QairtBundles", bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    """A server with the bundle and faulty ones in its store; at its end no worker is left."""
    data_dir, spoiled = tmp_path_factory.mktemp("qairt"), tmp_path_factory.mktemp("spoiled")
    store = Store(data_dir)
    import_path(parse(MODEL), bundle, store, "in_place")
    import_path(parse(SHORT), qairt_bundles.folder(), store, "in_place")
    for name, fault in FAULTS.items():
        import_path(parse(f"local/{name}"), fault.make(qairt_bundles, spoiled), store)
    with running("--parallel", "4", data_dir=data_dir) as server:
        yield server
        left = workers(server.process.pid)
        assert server.end() == 0
        _, alive = psutil.wait_procs(left, timeout=PATIENCE)
        assert not alive
        assert not [line for line in server.log if "Traceback" in line]


@pytest.fixture(scope="session")
def client(served: LiveServer) -> Iterator[OpenAI]:
    """The official client; what fails is not tried again."""
    with OpenAI(
        base_url=served.base_url, api_key="none", max_retries=0, timeout=2 * PATIENCE
    ) as client:
        yield client
