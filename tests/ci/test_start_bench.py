"""The benchmark of starts: what it waits for, and when it is satisfied."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from ci.benchmarks import start
from ci.benchmarks.start import Start, Took, its_end, its_first_byte, ready, timed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the benchmark is for Linux")
_HTTP = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        self.send_response(503 if Handler.asked < 3 else 200)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("a line before", file=sys.stderr)
print(f"Listening on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
server.serve_forever()
"""
ONE = Start("x", ("ours",), ("peer",), (its_end, its_end), 0.2, "a peer")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_an_end_is_waited_for() -> None:
    took = timed(python("sum(range(10**6))"), its_end)
    assert took.cpu > 0 and took.wall > 0
    with pytest.raises(RuntimeError, match="it broke"):
        timed(python("import sys; sys.exit('it broke')"), its_end)


def test_the_first_byte_is_waited_for() -> None:
    code = "import time; print(end='x', flush=True); time.sleep({})"
    early, late = (timed(python(code.format(s)), its_first_byte) for s in (0.0, 0.3))
    assert early.wall > 0 and late.wall > 0
    with pytest.raises(RuntimeError, match=r"it said nothing.*why"):
        timed(python("import sys; sys.exit('why')"), its_first_byte)


def test_a_server_is_waited_for() -> None:
    assert timed(python(_HTTP), ready("/health")).wall > 0
    with pytest.raises(RuntimeError, match=r"it does not listen.*no port"):
        timed(python("import sys; sys.exit('no port')"), ready("/health"))


@pytest.mark.parametrize(
    ("changes", "mine", "load", "passed"),
    [
        pytest.param({}, (0.19, 0.19, 9.0), 0.0, True, id="one-slow-round"),
        pytest.param({}, (0.21, 0.21, 0.0), 0.0, False, id="one-fast-round"),
        pytest.param({"over": True}, (0.29, 0.29, 0.29), 0.0, True, id="beyond-the-peer"),
        pytest.param({"over": True}, (0.31, 0.31, 0.31), 0.0, False, id="too-far-beyond"),
        pytest.param({"load": True}, (0.29, 0.29, 0.29), 0.1, True, id="and-its-load"),
        pytest.param({}, (0.29, 0.29, 0.29), 0.1, False, id="a-load-that-is-not-its"),
    ],
)
@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_the_median_decides(
    changes: dict[str, Any],
    mine: tuple[float, ...],
    load: float,
    passed: bool,
    clock: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter((5.0, *mine))

    def scripted(command: tuple[str, ...], wait: object) -> Took:
        found = next(seconds) if command == ("ours",) else 0.1
        return Took(found, 7.0) if clock == "wall" else Took(7.0, found)

    monkeypatch.setattr(start, "timed", scripted)
    assert start.run(replace(ONE, **changes), 3, clock, load) is passed
