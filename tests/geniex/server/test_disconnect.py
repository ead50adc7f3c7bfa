"""A client that goes frees its slot, in load, queue, prefill and decode, streamed or not."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from geniex.config import Settings
from geniex.server.app import build_app
from geniex.server.pool import Pool, PoolOptions
from geniex.server.state import ServerState
from geniex_runtimes.fake import Script
from tests.geniex.conftest import install
from tests.geniex.server.door import GREETING, Runtime, options_of, wait_for

CHAT: dict[str, Any] = {"messages": GREETING}
# goes on for many seconds: the grammar never allows an end
ENDLESS: dict[str, Any] = {
    "prompt": "Once",
    "max_tokens": -1,
    "nctx": 32768,
    "grammar_string": "root ::= [a-z ] root",
    "stream": True,
}
CHAT_PATH = "/v1/chat/completions"
PATHS: dict[str, dict[str, Any]] = {
    CHAT_PATH: CHAT,
    "/v1/completions": {"prompt": "Hi", "max_tokens": -1},
    "/v1/responses": {"input": "Hi"},
}


@contextmanager
def listening(data_dir: Path, slots: int = 4) -> Iterator[tuple[Pool, int]]:
    """A server on a real socket, in a thread: its pool and its port."""
    settings = Settings(data_dir)
    pool = Pool(settings, PoolOptions(slots=slots))
    app = build_app(ServerState(settings, options_of(), pool))
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield pool, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def sent(port: int, path: str, **fields: Any) -> socket.socket:
    """A connection on which a request has been sent."""
    body = json.dumps(fields).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(30)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def metrics(port: int) -> str:
    """What is counted just now."""
    return httpx2.get(f"http://127.0.0.1:{port}/metrics").text


def is_free(pool: Pool) -> bool:
    """Whether nobody has a slot, and nobody waits for one."""
    return all(one.busy == one.waiting == 0 for one in pool.residents())


def is_answering(runtime: Runtime) -> bool:
    return any(model.requests for model in runtime.models)


Started = Callable[[Runtime, Pool], bool]
PHASES: dict[str, tuple[Callable[[], Runtime], Started]] = {
    "load": (
        lambda: Runtime(load_delay=1.0, chat_template=None),
        lambda runtime, pool: any(one.loading for one in pool.residents()),
    ),
    "prefill": (
        lambda: Runtime(Script(prefill_delay=300), chat_template=None),
        lambda runtime, pool: is_answering(runtime),
    ),
    "decode": (
        lambda: Runtime(Script(("a",) * 100_000, delay=0.01), chat_template=None),
        lambda runtime, pool: is_answering(runtime),
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("phase", "path"),
    [
        *((phase, CHAT_PATH) for phase in PHASES),
        ("decode", "/v1/completions"),
        ("decode", "/v1/responses"),
    ],
)
def test_a_client_that_goes_frees_its_slot(
    phase: str, path: str, stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, started = PHASES[phase]
    runtime = make()
    install(runtime, monkeypatch)
    with listening(tmp_path) as (pool, port):
        connection = sent(port, path, **PATHS[path], stream=stream)
        wait_for(lambda: started(runtime, pool))
        if phase == "decode" and stream:
            assert b"200 OK" in connection.recv(4096)
        connection.close()
        wait_for(lambda: is_free(pool))
        cancelled = f'geniex_requests_cancelled_total{{route="{path}"}} 1.0\n'
        wait_for(lambda: cancelled in metrics(port))
        if phase == "load":
            wait_for(lambda: not pool.residents())
            assert not runtime.models
            assert 'result="cancelled"} 1.0\n' in metrics(port)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_goes_leaves_the_queue_of_a_real_model(tmp_path: Path, stream: bool) -> None:
    with listening(tmp_path, slots=1) as (pool, port):
        first = sent(port, "/v1/completions", **ENDLESS)
        assert b"200 OK" in first.recv(4096)
        waiting = sent(port, CHAT_PATH, **CHAT, nctx=32768, stream=stream)
        wait_for(lambda: any(one.waiting for one in pool.residents()))
        waiting.close()
        wait_for(lambda: all(one.waiting == 0 for one in pool.residents()))
        assert any(one.busy for one in pool.residents())
        first.close()
        wait_for(lambda: is_free(pool))


def test_others_go_on_when_one_client_goes(tmp_path: Path) -> None:
    with listening(tmp_path) as (pool, port):
        leaving = sent(port, "/v1/completions", **ENDLESS)
        assert b"200 OK" in leaving.recv(4096)
        staying = sent(port, CHAT_PATH, **CHAT, nctx=32768, temperature=0)
        leaving.close()
        answer = staying.makefile("rb").read1(65536)
        assert b"200 OK" in answer
        staying.close()
        wait_for(lambda: is_free(pool))
