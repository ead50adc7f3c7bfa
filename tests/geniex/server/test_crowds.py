"""Many clients at once: all are answered or turned away, and whoever watches is answered too."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.geniex.server.crowd import (
    CAPITAL,
    QUESTION,
    Link,
    connected,
    crowd,
    healthy,
    request,
)
from tests.geniex.server.live import LiveServer, running

CHAT = "/v1/chat/completions"
CROWD, IDLE, DEEP = 500, 300, 300
POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")

_FEW = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
runpy.run_module("geniex", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server for crowds, of its own: others would feel them."""
    folder = tmp_path_factory.mktemp("crowded")
    with running("--nctx", "256", "--max-connections", "600", data_dir=folder) as live:
        crowd(live.url, 1)
        yield live
        assert live.end() == 0
        assert not [line for line in live.log if "Traceback" in line]


def test_five_hundred_at_once(server: LiveServer) -> None:
    lives: list[bool] = []
    told = crowd(server.url, CROWD, between=lambda: lives.append(healthy(server.url)))
    assert set(told) <= {"answered", "busy"}
    assert told["answered"] >= 1 and lives == [True]
    # and it is as before
    assert crowd(server.url, 4) == {"answered": 4}


def test_a_deep_pipeline(server: LiveServer) -> None:
    with Link(server.url) as link:
        link.send(request("/health", close=False) * DEEP)
        assert [link.answer()[0] for _ in range(DEEP)] == [200] * DEEP
        link.send(request(CHAT, QUESTION, close=False) * 8)
        assert all(CAPITAL.encode() in link.answer()[1] for _ in range(8))
    # who hangs up has nothing of it answered
    with Link(server.url) as link:
        link.send(request(CHAT, QUESTION, close=False) * 100)
    assert crowd(server.url, 2) == {"answered": 2}


def test_connections_that_are_kept_for_nothing(server: LiveServer) -> None:
    with connected(server.url, IDLE) as links:
        for link in links:
            link.send(request("/health", close=False))
        assert {link.answer()[0] for link in links} == {200}
        assert crowd(server.url, 4) == {"answered": 4}
        # they are still good
        for link in links[:: IDLE // 10]:
            link.send(request("/health", close=False))
            assert link.answer()[0] == 200


def test_who_never_reads_stops_nobody(server: LiveServer) -> None:
    with Link(server.url) as link:
        link.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            while True:
                link.send(request("/openapi.json", close=False) * 100)
        assert healthy(server.url)
        assert crowd(server.url, 2) == {"answered": 2}


@POSIX
def test_few_files_for_many_clients(tmp_path: Path) -> None:
    with running("--nctx", "256", data_dir=tmp_path, program=("-c", _FEW)) as server:
        told = crowd(server.url, 100)
        assert set(told) <= {"answered", "busy"}
        assert told["answered"] >= 8
        assert healthy(server.url)
        assert crowd(server.url, 4) == {"answered": 4}
        assert server.end(signal.SIGTERM) == 0
    assert not [line for line in server.log if "Traceback" in line or "ERROR" in line]
    assert any("at most 10 clients" in line for line in server.log)
