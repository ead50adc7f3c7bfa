"""A server in a process of its own: what it says, how it ends."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.geniex.server.conftest import MODEL
from tests.geniex.server.live import PATIENCE, LiveServer, running, start

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def get(server: LiveServer, path: str, **how: Any) -> httpx2.Response:
    return httpx2.get(f"{server.url}{path}", timeout=PATIENCE, **how)


class Held:
    """A request that is inside and stays there, until its body is sent."""

    def __init__(self, server: LiveServer) -> None:
        self._body = json.dumps({"model": MODEL, "content": "hi"}).encode()
        host, _, port = server.url.rpartition("/")[2].partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        head = (
            f"POST /tokenize HTTP/1.1\r\nhost: {host}\r\nexpect: 100-continue\r\n"
            f"content-type: application/json\r\ncontent-length: {len(self._body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        # said when the route asks for the body
        assert self._socket.recv(1000).startswith(b"HTTP/1.1 100 ")

    def end(self) -> bytes:
        """Send the body; the answer is what comes back, nothing where the connection is cut."""
        with self._socket:
            try:
                self._socket.sendall(self._body)
                return b"".join(iter(lambda: self._socket.recv(1 << 16), b""))
            except ConnectionError:
                return b""


def await_draining(server: LiveServer) -> None:
    end = time.monotonic() + PATIENCE
    while get(server, "/ready").status_code != 503:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_it_answers_once_it_says_so(live_server: LiveServer) -> None:
    assert live_server.url.startswith("http://127.0.0.1:")
    assert get(live_server, "/health").status_code == 200
    assert get(live_server, "/v1/models").json()["data"]


@POSIX
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"]
)
def test_the_end_of_an_idle_server(tmp_path: Path, number: int, code: int) -> None:
    with running(data_dir=tmp_path) as server, httpx2.Client(base_url=server.url) as client:
        client.get("/health")
        # an open connection keeps nothing from ending
        assert server.end(number) == code
    assert server.log == [f"Listening on {server.url}"]


@POSIX
def test_what_runs_ends_first(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as server:
        held = Held(server)
        server.process.send_signal(signal.SIGTERM)
        await_draining(server)
        refused = get(server, "/v1/models")
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        answer = held.end()
        assert answer.startswith(b"HTTP/1.1 200 ") and b"tokens" in answer
        assert server.end() == 0
    assert "Ending: 1 answer still runs, for 30 s at most; again ends at once" in server.log


@POSIX
def test_but_not_for_ever(tmp_path: Path) -> None:
    with running("--grace", "0", data_dir=tmp_path) as server:
        held = Held(server)
        assert server.end(signal.SIGTERM) == 0
        assert held.end().startswith(b"HTTP/1.1 503 ")
    assert not any("Traceback" in line for line in server.log)


@POSIX
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with running("--grace", "1000", data_dir=tmp_path) as server:
        held = Held(server)
        server.process.send_signal(signal.SIGTERM)
        await_draining(server)
        assert server.end(signal.SIGINT) == 130
        assert held.end() == b""


def test_as_it_was_told(tmp_path: Path, tiny_chat: Path, tiny_chat_draft: Path) -> None:
    origin, key = "http://chat.example.org", {"authorization": "Bearer secret"}
    environ = {"GENIEX_APIKEY": "secret", "GENIEX_ORIGINS": f"{origin}/", "GENIEX_PARALLEL": "2"}
    args = ("--host", "0.0.0.0", "--nctx", "256", "--keepalive", "-1", "--log", "info")
    with running(str(tiny_chat), *args, data_dir=tmp_path, environ=environ) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert get(server, "/v1/models").status_code == 401
        end = time.monotonic() + PATIENCE
        while get(server, "/ready").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        response = get(server, "/v1/ps", headers={**key, "origin": origin})
        assert response.headers["access-control-allow-origin"] == origin
        [resident] = response.json()["data"]
        assert (resident["id"], resident["context_length"]) == (str(tiny_chat), 256)
        assert (resident["slots"], resident["expires_in"]) == (2, None)
        listed = get(server, "/v1/models", headers=key).json()["data"]
        assert str(tiny_chat) in [model["id"] for model in listed]
        # any other file of this machine is none of the clients' business
        for path, status in ((tiny_chat, 200), (tiny_chat_draft, 400)):
            body = {"model": str(path), "content": "hi"}
            url = f"{server.url}/tokenize"
            response = httpx2.post(url, json=body, headers=key, timeout=PATIENCE)
            assert response.status_code == status, response.text
        server.await_log("GET /v1/ps 200")
    # with a key it is no open house
    assert not any("secret" in line or "Warning" in line for line in server.log)


def test_a_port_for_two(live_server: LiveServer, tmp_path: Path) -> None:
    port = live_server.url.rpartition(":")[2]
    other = start("--port", port, data_dir=tmp_path)
    assert other.process.wait(PATIENCE) == 1
    assert other.process.poll() == 1
    other.end()
    assert other.log[0].startswith(f"Error: port {port} of `127.0.0.1` is taken")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.mark.skipif(os.name != "posix", reason="no openssl command")
def test_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    files = ("--ssl-certfile", str(certificate[0]), "--ssl-keyfile", str(certificate[1]))
    with running(*files, data_dir=tmp_path) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate[0]))
        assert get(server, "/health", verify=trusted).status_code == 200


def test_whoever_reaches_it_needs_a_key_that_is_told_once(tmp_path: Path) -> None:
    with running("--host", "0.0.0.0", data_dir=tmp_path) as server:
        server.await_log("API key, made for this run: ")
        [told] = [line for line in server.log if "API key" in line]
        key = told.rpartition(" ")[2]
        assert len(key) >= 32
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{url}/v1/models").status_code == 401
        headers = {"authorization": f"Bearer {key}"}
        assert httpx2.get(f"{url}/v1/models", headers=headers).status_code == 200
        assert httpx2.get(f"{url}/health").status_code == 200


def test_whoever_reaches_it_needs_none_where_its_operator_insists(tmp_path: Path) -> None:
    with running("--host", "0.0.0.0", "--no-auth", data_dir=tmp_path) as server:
        server.await_log("Warning: whoever reaches 0.0.0.0")
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{url}/v1/models").status_code == 200
