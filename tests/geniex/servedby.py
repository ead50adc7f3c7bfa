"""Servers for tests of their clients: one that follows a script, and a real one."""

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.geniex.server.live import LiveServer
from tests.terminal import ROOT, environment, python

LOADED = {
    "id": "org/repo:Q4_0",
    "runtime": "llama_cpp",
    "compute": "cpu",
    "devices": ["CPU"],
    "context_length": 4096,
    "slots": 4,
    "speculation": [],
    "warnings": [],
}
GENIEX: dict[str, Any] = {
    "stop_reason": "eos",
    "timings": {"ttft": 0.5, "prompt_time": 0.4, "decode_time": 2.0},
    "speculation": None,
    "warnings": [],
}
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def chunks(*deltas: dict[str, Any], reason: str = "stop", **ours: Any) -> list[dict[str, Any]]:
    """The events of a chat with these deltas."""
    events: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": d}]} for d in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    events.append({"choices": [], "usage": USAGE, "geniex": {**GENIEX, **ours}})
    return events


class ScriptedServer:
    """Answers loads with `loaded`, and the n-th stream with the n-th script, the last one repeats.

    `refusals` maps a path to the status and body that it is answered with. `seen` are the requests:
    path, headers, body.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = dict(LOADED)
        self.residents: list[dict[str, Any]] = []
        self.scripts: list[Sequence[dict[str, Any] | str]] = [
            chunks({"role": "assistant"}, {"content": "Hello, "}, {"content": "wörld!"})
        ]
        self.refusals: dict[str, tuple[int, Any, dict[str, str]]] = {}
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.host = f"127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def bodies(self) -> list[Any]:
        """What the requests that stream asked."""
        return [body for path, _, body in self.seen if path.endswith("completions")]

    def next_script(self) -> Sequence[dict[str, Any] | str]:
        """The events of the next stream; a text is sent as it is."""
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]

    def close(self) -> None:
        """End it."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None, {"object": "list", "data": server.residents})

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if self.path.endswith("/load"):
                self._answer(body, server.loaded)
            else:
                self._answer(body, None)

        def _answer(self, body: Any, value: Any) -> None:
            server.seen.append((self.path, dict(self.headers.items()), body))
            refusal = next(
                (it for path, it in server.refusals.items() if self.path.endswith(path)), None
            )
            if refusal is not None:
                status, content, headers = refusal
                self._send(status, "application/json", json.dumps(content).encode(), headers)
            elif value is not None:
                self._send(200, "application/json", json.dumps(value).encode(), {})
            else:
                events = "".join(
                    one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n"
                    for one in server.next_script()
                )
                if not events.endswith("CUT"):
                    events += "data: [DONE]\n\n"
                data = events.removesuffix("CUT").encode()
                self._send(200, "text/event-stream; charset=utf-8", data, {})

        def _send(self, status: int, kind: str, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """A scripted server, ended behind the block."""
    server = ScriptedServer()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def scenario_server(scenario: str, data_dir: Path) -> Iterator[LiveServer]:
    """A real `geniex serve` over a scripted runtime of tests.scripted_geniex."""
    process = subprocess.Popen(
        [*python("tests.scripted_geniex", scenario, "serve"), "--port", "0", "--grace", "1"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(GENIEX_DATADIR=str(data_dir), HOME=str(data_dir)),
    )
    server = LiveServer(process, data_dir)
    try:
        server.await_listening()
        yield server
    finally:
        server.end()
