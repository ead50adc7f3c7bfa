"""A server from the other side: answers that are stopped, and connections that break."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex.address import parse_address
from geniex.answering import AnswerOptions
from geniex.chat.messages import Message
from geniex.chat.reasoning import Part
from geniex.client.model import RequestWish, ServedModel
from geniex.client.server import Server
from geniex.speculation_wish import NO_WISH
from geniex_catalogue.errors import ServerError, ServerUnreachableError
from tests.geniex.servedby import scenario_server
from tests.geniex.server.live import LiveServer

PATIENCE = 30.0
HELLO = [Message("user", "hi")]


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[LiveServer]:
    with scenario_server("endless", tmp_path) as server:
        yield server


def test_an_answer_that_is_closed_frees_its_slot(endless: LiveServer) -> None:
    with Server(parse_address(endless.url)) as server:
        model = ServedModel(server, "tiny", RequestWish(), NO_WISH)
        events = model.answer(HELLO, AnswerOptions())
        part = next(iter(events))
        assert isinstance(part, Part) and part.text.startswith("word")
        events.close()
        end = time.monotonic() + PATIENCE
        while sum(int(one["busy"]) for one in server.ps()):
            assert time.monotonic() < end, "the server goes on"
            time.sleep(0.02)
        assert list(events) == []


def test_a_server_that_dies_is_told_of(endless: LiveServer) -> None:
    with Server(parse_address(endless.url)) as server:
        model = ServedModel(server, "tiny", RequestWish(), NO_WISH)
        events = iter(model.answer(HELLO, AnswerOptions()))
        next(events)
        endless.process.kill()
        with pytest.raises(ServerError, match=r"broke|before the end"):
            for _ in events:
                pass
        endless.process.wait(PATIENCE)
        with pytest.raises(ServerUnreachableError):
            server.ps()
