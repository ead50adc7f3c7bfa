"""A model's file that goes, or becomes another, under a running server."""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.damage.doors import stored
from tests.geniex.server.live import LiveServer

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows lets no file go that is in use"
)

ENDLESS = "root ::= [a-z ] root"
QUESTION = "What is the capital of France?"


class Asked:
    """A stream that has begun."""

    def __init__(self, server: LiveServer, model: str, **fields: Any) -> None:
        self._response = urllib.request.urlopen(request(server, model, stream=True, **fields))
        self._first = self._response.readline()

    def rest(self) -> str:
        """All that it still says, to its end."""
        lines = [self._first, *self._response]
        self._response.close()
        assert lines[-2:] == [b"data: [DONE]\n", b"\n"], lines[-4:]
        chunks = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
        return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)


def request(server: LiveServer, model: str, **fields: Any) -> urllib.request.Request:
    """A chat with a model."""
    messages = [{"role": "user", "content": QUESTION}]
    body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 12, **fields}
    return urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )


def ask(server: LiveServer, model: str, **fields: Any) -> tuple[int, Any]:
    """The status, and the answer's text or the error."""
    try:
        with urllib.request.urlopen(request(server, model, **fields)) as response:
            return 200, json.load(response)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


@pytest.fixture
def model(live_server: LiveServer, tiny_chat: Path, request: Any) -> Iterator[tuple[str, Path]]:
    """A model of the server's store, and its file."""
    name = f"changing/{request.node.name.replace('_', '-')}"
    path = stored(live_server.data_dir, name, {"model-Q8_0.gguf": tiny_chat.read_bytes()})
    yield name, path
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()


def running(server: LiveServer, name: str) -> Asked:
    """An answer of some thousand steps, which has begun."""
    return Asked(server, name, grammar_string=ENDLESS, max_tokens=600)


def test_removed(live_server: LiveServer, model: tuple[str, Path]) -> None:
    name, path = model
    answer = running(live_server, name)
    path.unlink()
    assert len(answer.rest()) > 100
    status, error = ask(live_server, name)
    assert status in (404, 500)
    assert name in error["message"] or path.name in error["message"]
    assert ask(live_server, "geniex/tiny-chat")[1] == "The capital of France is Paris."


def test_replaced(live_server: LiveServer, model: tuple[str, Path], toys: Path) -> None:
    name, path = model
    assert ask(live_server, name) == (200, "The capital of France is Paris.")
    answer = running(live_server, name)
    new = path.with_name("new.gguf")
    # a store knows its files by their size
    toy = (toys / "g4-markov-target.gguf").read_bytes()
    new.write_bytes(toy.ljust(path.stat().st_size, b"\0"))
    os.replace(new, path)  # noqa: PTH105
    # the next one is of the new file, beside the answer of the old
    status, text = ask(live_server, name)
    assert status == 200 and "Paris" not in text
    assert len(answer.rest()) > 100


def test_replaced_by_what_is_no_model(live_server: LiveServer, model: tuple[str, Path]) -> None:
    name, path = model
    answer = running(live_server, name)
    new = path.with_name("new.gguf")
    new.write_bytes(b"<html>not found</html>")
    os.replace(new, path)  # noqa: PTH105
    status, error = ask(live_server, name)
    assert status == 500 and error["code"] == "store_error"
    assert "model-Q8_0.gguf" in error["message"]
    assert len(answer.rest()) > 100


def test_cut_while_nobody_uses_it(live_server: LiveServer, model: tuple[str, Path]) -> None:
    name, path = model
    assert ask(live_server, name)[0] == 200
    os.truncate(path, 1 << 20)
    status, error = ask(live_server, name)
    assert status == 500 and error["code"] == "store_error"
    assert "model-Q8_0.gguf" in error["message"]
    assert ask(live_server, "geniex/tiny-chat")[1] == "The capital of France is Paris."
