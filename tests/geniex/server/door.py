"""The server in this process, over a scripted runtime: what tests of its routes share."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from geniex.api_keys import KeyRing
from geniex.config import Settings
from geniex.server.app import build_app
from geniex.server.options import ServerOptions
from geniex.server.pool import Pool, PoolOptions
from geniex.server.state import ServerState
from geniex_runtimes.contract import GenerationRequest, PromptPiece
from geniex_runtimes.fake import FakeModel, FakeRuntime
from tests.geniex.conftest import install

HELLO = "Hello, world!"
GREETING = [{"role": "user", "content": "Hi"}]


class Runtime(FakeRuntime):
    """A scripted runtime that keeps the models it has loaded."""

    def __init__(self, *scripts: Any, **options: Any) -> None:
        super().__init__(*scripts, **options)
        self.models: list[FakeModel] = []

    def load(self, *given: Any, **options: Any) -> FakeModel:
        self.models.append(super().load(*given, **options))
        return self.models[-1]

    @property
    def asked(self) -> GenerationRequest:
        """What the model was asked last."""
        return self.models[-1].requests[-1]

    @property
    def prompt(self) -> str:
        """The text of the prompt that was evaluated last."""
        return "".join(p.text for p in self.asked.prompt if isinstance(p, PromptPiece))


class Door:
    """Asks one route of a server; `runtime` is what it runs on."""

    def __init__(
        self,
        client: TestClient,
        state: ServerState,
        runtime: Runtime,
        path: str,
        defaults: dict[str, Any],
    ) -> None:
        self.client = client
        self.state = state
        self.runtime = runtime
        self._path = path
        self._defaults = defaults

    def post(self, **fields: Any) -> Any:
        """The response to a request with these fields."""
        # ASCII, since only so half a character can be sent
        content = json.dumps({**self._defaults, **fields})
        return self.client.post(
            self._path, content=content, headers={"content-type": "application/json"}
        )

    def ask(self, **fields: Any) -> Any:
        """The object of a good answer."""
        response = self.post(**fields)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, status: int = 400, **fields: Any) -> dict[str, Any]:
        """The error of a request that is to be refused."""
        response = self.post(**fields)
        assert response.status_code == status, response.text
        error: dict[str, Any] = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        return error

    def events(self, **fields: Any) -> list[str]:
        """The data of each event of a stream, as it stands; comments are left out."""
        response = self.post(stream=True, **fields)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        blocks = response.text.split("\n\n")
        assert blocks.pop() == ""
        data = [block for block in blocks if not block.startswith(":")]
        assert all(block.startswith("data: ") and "\n" not in block for block in data)
        return [block.removeprefix("data: ") for block in data]

    def stream(self, **fields: Any) -> list[Any]:
        """The chunks of a stream that ends well."""
        *chunks, done = self.events(**fields)
        assert done == "[DONE]"
        return [json.loads(chunk) for chunk in chunks]


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until it is so; fail when it is not in that time."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"still not so after {seconds} s"
        time.sleep(0.01)


def options_of(*, api_key: str | None = None, **options: Any) -> ServerOptions:
    """Options of a server that Starlette's client calls `testserver`, with one key or none."""
    keys = None if api_key is None else KeyRing((api_key,))
    return ServerOptions(**{"allowed_hosts": ("testserver",), "keys": keys, **options})


@contextmanager
def opened(
    runtime: Runtime, data_dir: Path, path: str, defaults: dict[str, Any], **options: Any
) -> Iterator[Door]:
    """The door to a route of a server over a scripted runtime; `options` are the server's."""
    with pytest.MonkeyPatch.context() as patch:
        install(runtime, patch)
        settings = Settings(data_dir)
        pool = PoolOptions(paths=frozenset(options.get("paths", ())))
        state = ServerState(settings, options_of(**options), Pool(settings, pool))
        with TestClient(build_app(state), raise_server_exceptions=False) as client:
            yield Door(client, state, runtime, path, defaults)
