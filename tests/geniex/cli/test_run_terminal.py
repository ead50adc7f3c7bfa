"""`geniex run` on a terminal: the chat, its commands, and a Ctrl-C that the server hears."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("needs a pseudo terminal", allow_module_level=True)

from geniex.address import parse_address
from geniex.client.server import Server
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from tests.geniex.servedby import scenario_server, scripted_server
from tests.terminal import Terminal, python, terminal

PATIENCE = 30.0


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scenario_server("endless", tmp_path_factory.mktemp("data")) as server:
        yield server.url


@pytest.fixture
def chat(host: str, data_dir: Path) -> Iterator[Terminal]:
    with terminal(*python("geniex", "run", "tiny", "--host", host)) as shown:
        shown.wait_for("Send a message")
        yield shown


def loaded(host: str) -> list[dict[str, Any]]:
    with Server(parse_address(host)) as server:
        return server.ps()


def busy(host: str) -> int:
    return sum(int(resident["busy"]) for resident in loaded(host))


def test_ctrl_c_stops_the_answer_and_keeps_the_chat(host: str, chat: Terminal) -> None:
    assert "geniex/tiny-chat:Q8_0" in chat.text
    chat.type("hi\r")
    chat.wait_for("word word")
    chat.type("\x03")
    chat.wait_for("(stopped)")
    end = time.monotonic() + PATIENCE
    while busy(host):
        assert time.monotonic() < end, "the server goes on"
    chat.type("/show\r")
    assert "messages            2" in chat.wait_for("frequency_penalty")
    chat.type("/set temperature 0\r")
    chat.forget()
    chat.type("again\r")
    chat.wait_for("word word")
    chat.type("\x03")
    chat.wait_for("(stopped)")
    chat.type("\x04")
    assert chat.leave()[0] == 0
    assert chat.settings() == chat.before


def test_a_chat_that_is_full_is_told_how_to_go_on(data_dir: Path) -> None:
    with (
        scripted_server() as server,
        terminal(*python("geniex", "run", "org/repo", "--host", server.host)) as shown,
    ):
        shown.wait_for("Send a message")
        shown.type("hi\r")
        shown.wait_for("wörld!")
        error = {"message": "it is too long", "code": "context_length_exceeded"}
        server.refusals["/completions"] = (400, {"error": error}, {})
        shown.type("again\r")
        shown.wait_for("Error: it is too long")
        assert "`/clear`" in shown.wait_for("hint: ")
        shown.type("\x04")
        assert shown.leave()[0] == 0


def test_ctrl_c_gives_a_load_up(tmp_path: Path, data_dir: Path, tiny_chat: Path) -> None:
    import_path(ModelRef("local", "gated"), tiny_chat, Store(tmp_path))
    with (
        scenario_server("gated", tmp_path) as server,
        terminal(
            *python("geniex", "run", "local/gated", "--host", server.url, "-p", "hi")
        ) as shown,
    ):
        shown.wait_for("loading model")
        end = time.monotonic() + PATIENCE
        while not loaded(server.url):
            assert time.monotonic() < end, "it is not loaded"
        shown.type("\x03")
        assert shown.leave()[0] == 130
        while loaded(server.url):
            assert time.monotonic() < end + PATIENCE, "the load goes on"


def test_ctrl_c_ends_a_command(host: str, data_dir: Path) -> None:
    with terminal(*python("geniex", "run", "tiny", "--host", host, "-p", "hi")) as shown:
        shown.wait_for("word word")
        shown.type("\x03")
        assert shown.leave()[0] == 130
        assert "Traceback" not in shown.text and shown.settings() == shown.before
    end = time.monotonic() + PATIENCE
    while busy(host):
        assert time.monotonic() < end, "the server goes on"
