"""Two models at once: one loads and answers while the other one answers."""

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from tests.geniex.servedby import scenario_server
from tests.geniex.server.live import running

PATIENCE = 60.0


class Reader:
    """Reads an answer's stream on a thread; `arrivals` are the times of its chunks."""

    def __init__(self, url: str, body: dict[str, Any]) -> None:
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            where.hostname or "", where.port, timeout=PATIENCE
        )
        self._connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps({**body, "stream": True}),
            {"content-type": "application/json"},
        )
        self._response = self._connection.getresponse()
        self.arrivals: list[float] = []
        self.ended = False
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._leaving.is_set() and (line := self._response.readline()):
            if line.startswith(b"data: "):
                self.arrivals.append(time.monotonic())
        self.ended = not self._leaving.is_set()

    def await_more(self) -> None:
        """Wait until it goes on."""
        before = len(self.arrivals)
        until(lambda: len(self.arrivals) > before)

    def leave(self) -> None:
        """Hang up."""
        self._leaving.set()
        self._thread.join(PATIENCE)
        self._connection.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def ask(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def chat(model: str, question: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": question}], **more}


def busy(url: str) -> int:
    return sum(int(one["busy"]) for one in ask(url, "/v1/ps")["data"])


def test_a_load_stops_nobody(tmp_path: Path, tiny_chat: Path) -> None:
    import_path(ModelRef("local", "gated"), tiny_chat, Store(tmp_path))
    with scenario_server("gated", tmp_path) as server:
        long = Reader(server.url, chat("tiny", "hi"))
        long.await_more()
        answers: list[Any] = []
        other = threading.Thread(
            target=lambda: answers.append(
                ask(server.url, "/v1/chat/completions", chat("local/gated", "hi"))
            )
        )
        other.start()
        try:
            until(lambda: any(one["loading"] for one in ask(server.url, "/v1/ps")["data"]))
            long.await_more()
            listed = [one["id"] for one in ask(server.url, "/v1/models")["data"]]
            assert "geniex/tiny-chat:Q8_0" in listed
            assert any(name.startswith("local/gated") for name in listed)
            assert ask(server.url, "/health") == {"status": "ok"}
            long.await_more()
            assert answers == [] and not long.ended  # all of this while the other one loads
        finally:
            (tmp_path / "go").touch()
            other.join(PATIENCE)
        assert answers[0]["choices"][0]["message"]["content"] == "Hello, world!"
        long.await_more()
        long.leave()
        until(lambda: busy(server.url) == 0)


@pytest.mark.slow
def test_a_real_model_loads_beside_a_long_answer(tmp_path: Path, smollm2: Path) -> None:
    with running(str(smollm2), "--threads", "1", data_dir=tmp_path) as server:
        endless = chat(
            str(smollm2), "Tell a story.", max_tokens=1900, grammar_string="root ::= [a-z ] root"
        )
        long = Reader(server.url, endless)
        long.await_more()
        question = chat("tiny", "What is the capital of France?", temperature=0)
        answer = ask(server.url, "/v1/chat/completions", question)
        assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."
        assert {one["id"] for one in ask(server.url, "/v1/models")["data"]} >= {
            "geniex/tiny-chat:Q8_0"
        }
        assert not long.ended
        long.await_more()
        loaded = [one["id"] for one in ask(server.url, "/v1/ps")["data"]]
        assert len(loaded) == 2
        gaps = [b - a for a, b in zip(long.arrivals, long.arrivals[1:], strict=False)]
        assert max(gaps) < 20.0
        long.leave()
        until(lambda: busy(server.url) == 0)
