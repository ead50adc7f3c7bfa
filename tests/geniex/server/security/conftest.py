"""A real server that is watched, for a table of attacks; and what it must not turn to."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.geniex.server.live import LiveServer, start
from tests.geniex.server.security.wire import as_json, post, send

MODEL = "geniex/tiny-chat:Q8_0"
# in whatever must not be turned to, or be told of
CANARY = "canary"
WATCHED = Path(__file__).with_name("watched.py")


class Site(BaseHTTPRequestHandler):
    """A web site that nobody may call."""

    calls: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.calls.append(self.path)
        self.send_error(404)

    do_POST = do_HEAD = do_GET

    def log_message(self, format: str, *given: object) -> None:
        """Say nothing."""


class Watched:
    """A server, the files and the site it must not turn to, and the record of what it did."""

    def __init__(self, server: LiveServer, record: Path, canary: Path, site: str) -> None:
        self.server = server
        self.url = server.url
        self.canary = canary
        self.site = site
        self._record = record
        self._seen = 0
        self.news()

    def news(self) -> list[tuple[str, str]]:
        """What it turned to since the last look."""
        with self._record.open(encoding="ascii") as file:
            file.seek(self._seen)
            lines = file.read().splitlines()
            self._seen = file.tell()
        events: list[tuple[str, str]] = [tuple(json.loads(line)) for line in lines]
        return events

    def turned_to(self) -> list[tuple[str, str]]:
        """What of the news it must not have turned to: any address, and what a canary sits in.

        Names are looked up in the store, which is no harm.
        """
        store = str(self.server.data_dir / "models")
        return [
            (event, what)
            for event, what in self.news()
            if event.startswith("socket.") or (CANARY in what and store not in what)
        ]

    def filled(self, text: str) -> str:
        """A text of the table, with the places in it."""
        places = {"{dir}": str(self.canary), "{site}": self.site}
        for name, place in places.items():
            text = text.replace(name, place)
        return text

    def answers(self) -> None:
        """It is as well as before: another client gets the right answer."""
        reply = send(self.url, post("/tokenize", as_json(model=MODEL, content="Hi")))
        assert reply.status == 200, reply
        assert json.loads(reply.body)["tokens"]


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the site that nobody may call."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
    assert Site.calls == []


@pytest.fixture(scope="session")
def watched(
    tmp_path_factory: pytest.TempPathFactory, tiny_chat: Path, site: str
) -> Iterator[Watched]:
    """One for all tests, with all its log: leave it as you found it."""
    data_dir = tmp_path_factory.mktemp("watched")
    canary = tmp_path_factory.mktemp(CANARY)
    (canary / "secret.txt").write_text("root:x:0:0", encoding="utf-8")
    (canary / "words.gbnf").write_text('root ::= "yes"', encoding="utf-8")
    # models that would answer, should they ever be found
    for place in (canary, data_dir / f"{CANARY}-org" / "repo", data_dir):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(tiny_chat, place / f"{CANARY}.gguf")
    if os.name == "posix":
        # who opens this waits for ever
        os.mkfifo(canary / "pipe")
    record = tmp_path_factory.mktemp("record") / "record"
    program = (str(WATCHED), str(record))
    server = start(MODEL, "--log", "trace", data_dir=data_dir, program=program)
    try:
        server.await_listening()
        made = Watched(server, record, canary, site)
        made.answers()
        yield made
    finally:
        server.end()
