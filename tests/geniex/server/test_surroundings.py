"""A server whose log nobody reads, whose clock jumps, and in surroundings that are broken."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.geniex.server.crowd import (
    CAPITAL,
    QUESTION,
    Link,
    await_health,
    connected,
    crowd,
    request,
)
from tests.geniex.server.live import PATIENCE, LiveServer, running, start
from tests.terminal import environment

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these are surroundings of POSIX")

ENDLESS = {**QUESTION, "grammar_string": "root ::= [a-z ] root", "max_tokens": 100000}
# an hour back and forth, five times a second
_JUMPS = """
import runpy, time
real, steady = time.time, time.monotonic
time.time = lambda: real() + 3600 * (int(steady() * 5) % 3 - 1)
runpy.run_module("geniex", run_name="__main__", alter_sys=True)
"""


def free_port() -> int:
    """A port that nobody has just now."""
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def fill(descriptor: int) -> None:
    """Leave no room in a pipe."""
    os.set_blocking(descriptor, False)
    for size in (4096, 1):
        try:
            while os.write(descriptor, b"\n" * size):
                pass
        except BlockingIOError:
            continue
    os.set_blocking(descriptor, True)


def serve(port: int, data_dir: Path, **how: Any) -> "subprocess.Popen[bytes]":
    """A server at a port, with streams of its own."""
    words = ["serve", "--port", str(port), "--nctx", "256", "--data-dir", str(data_dir)]
    env = environment(HOME=str(data_dir)) | how.pop("variables", {})
    return subprocess.Popen(
        [sys.executable, "-m", "geniex", *words, "--log", "info"],
        env={name: value for name, value in env.items() if value is not None},
        **how,
    )


def test_a_full_log_pipe_stops_nothing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    fill(writer)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = serve(port, tmp_path, stderr=writer, stdin=subprocess.DEVNULL)
    os.close(writer)
    try:
        await_health(url)
        with Link(url) as link:
            # each is a line of the log
            link.send(request("/v1/models", close=False) * 200)
            assert {link.answer()[0] for _ in range(200)} == {200}
        assert crowd(url, 4) == {"answered": 4}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reader)


def test_a_log_whose_reader_is_gone_stops_nothing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = serve(port, tmp_path, stderr=writer, stdin=subprocess.DEVNULL)
    os.close(writer)
    try:
        await_health(url)
        assert crowd(url, 4) == {"answered": 4}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_surroundings_that_are_broken(tmp_path: Path) -> None:
    data_dir = tmp_path / "dönnées 模型"
    data_dir.mkdir()

    def prepare() -> None:
        for descriptor in range(3):
            os.close(descriptor)
        os.umask(0o077)
        gone = tmp_path / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {"HOME": None, "USER": None, "LC_ALL": "C", "TMPDIR": "/nonexistent"}
    process = serve(port, data_dir, preexec_fn=prepare, close_fds=False, variables=variables)
    try:
        await_health(url)
        assert crowd(url, 4) == {"answered": 4}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    words = ("--nctx", "256", "--keepalive", "900")
    with running(*words, data_dir=tmp_path, program=("-c", _JUMPS)) as server:
        with Link(server.url) as link:
            for _ in range(4):
                link.send(request("/v1/chat/completions", QUESTION, close=False))
                assert CAPITAL.encode() in link.answer()[1]
                time.sleep(0.25)
            link.send(request("/v1/ps", close=False))
            [resident] = json.loads(link.answer()[1])["data"]
        # it is there since the first one, and to go when it was to
        assert 0 <= resident["idle_for"] < 60
        assert 800 < resident["expires_in"] <= 900
        assert server.end() == 0
    assert not [line for line in server.log if "Traceback" in line]


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGTERM, 1), (signal.SIGINT, 2)],
    ids=["SIGTERM-once", "Ctrl-C-twice"],
)
def test_the_end_while_it_decodes(tmp_path: Path, number: int, times: int) -> None:
    grace = "0.2" if times == 1 else "1000"
    with (
        running("--nctx", "256", "--grace", grace, data_dir=tmp_path) as server,
        connected(server.url, 3) as links,
    ):
        for link in links:
            link.send(request("/v1/chat/completions", {**ENDLESS, "stream": True}))
        # the answers have begun
        heads = [link.socket.recv(1) for link in links]
        assert heads == [b"H"] * 3
        for _ in range(times):
            server.process.send_signal(number)
            time.sleep(0.2)
        assert server.end(0) == (130 if number == signal.SIGINT else 0)
    assert not [line for line in server.log if "Traceback" in line]


@pytest.mark.parametrize("seconds", [0.4, 0.9])
def test_the_end_while_it_begins(tmp_path: Path, seconds: float) -> None:
    server: LiveServer = start("tiny", data_dir=tmp_path)
    time.sleep(seconds)
    # by Python itself where it has not come to us yet
    assert server.end(signal.SIGTERM) in (0, 143, -signal.SIGTERM)
    assert not [line for line in server.log if "Traceback" in line]
