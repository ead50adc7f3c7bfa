"""The server over a scripted runtime in this process, and a real one in a process of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from geniex.config import Settings
from geniex.server.app import build_app
from geniex.server.pool import Pool, PoolOptions
from geniex.server.prompt_log import PromptLog
from geniex.server.state import ServerState
from geniex.server.tracing import Tracing
from geniex.session import load_model
from geniex_runtimes.fake import FakeRuntime
from tests.geniex.conftest import Scripted, install
from tests.geniex.server.door import options_of
from tests.geniex.server.live import LiveServer, running

# always here: the runtime is scripted, the file is real
MODEL = "geniex/tiny-chat:Q8_0"
DRAFT = "geniex/tiny-chat-draft:Q8_0"


@dataclass
class Served:
    """A server in this process: its client, and what lies below."""

    client: TestClient
    app: FastAPI
    state: ServerState
    runtime: FakeRuntime


Serve = Callable[..., Served]


@pytest.fixture
def serve(scripted: Scripted, tmp_path: Path) -> Iterator[Serve]:
    """Serve a scripted runtime: `serve(runtime, settings={}, pool={}, **options)`.

    `opener` loads models in the place of `load_model`.
    """
    with ExitStack() as stack:

        def start(
            runtime: FakeRuntime | None = None,
            *,
            settings: dict[str, Any] | None = None,
            opener: Any = load_model,
            pool: dict[str, Any] | None = None,
            prompts: PromptLog | None = None,
            tracing: Tracing | None = None,
            **options: Any,
        ) -> Served:
            installed = scripted(runtime or FakeRuntime(name="llama_cpp"))
            chosen = Settings(data_dir=tmp_path / "data", **(settings or {}))
            models = Pool(chosen, PoolOptions(**(pool or {})), opener=opener)
            state = ServerState(
                chosen, options_of(**options), models, prompts=prompts, tracing=tracing
            )
            app = build_app(state)
            # its start and end are those of the pool
            client = stack.enter_context(TestClient(app))
            return Served(client, app, state, installed)

        yield start


@pytest.fixture
def client(serve: Serve) -> TestClient:
    """The client of a server over a scripted runtime with its defaults."""
    return serve().client


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One server over a scripted runtime for a whole module: leave it as you found it."""
    with pytest.MonkeyPatch.context() as patch:
        install(FakeRuntime(name="llama_cpp"), patch)
        settings = Settings(data_dir=tmp_path_factory.mktemp("shared"))
        state = ServerState(settings, options_of(), Pool(settings, PoolOptions()))
        with TestClient(build_app(state)) as client:
            yield client


@pytest.fixture(scope="session")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A real server with the built-in pair, one for all tests: leave it as you found it."""
    with running(data_dir=tmp_path_factory.mktemp("served")) as server:
        yield server
