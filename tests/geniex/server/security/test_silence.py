"""Prompts, answers and keys are the clients' own: no log and no error of another tells them."""

import json
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.geniex.server.conftest import Serve
from tests.geniex.server.live import LiveServer, start
from tests.geniex.server.security.conftest import MODEL
from tests.geniex.server.security.wire import Reply, head, post, send

MARK = "xyzzy plugh"
KEY = "sk-plover-plover-plover"
AUTH = ("Authorization", f"Bearer {KEY}")
CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": MARK}]}


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that logs all there is."""
    server = start("--log", "trace", "--api-key", KEY, data_dir=tmp_path_factory.mktemp("talks"))
    try:
        server.await_listening()
        yield server
    finally:
        server.end()


def asked(server: LiveServer, target: str, *headers: tuple[str, str], **fields: Any) -> Reply:
    """The reply to a request with the key."""
    body = json.dumps({"max_tokens": 4, **fields}).encode()
    return send(server.url, post(target, body, *(headers or (AUTH,))))


def said(content: Any, role: str = "user") -> dict[str, Any]:
    """A chat of one message."""
    return {**CHAT, "messages": [{"role": role, "content": content}]}


IMAGE = [{"type": "image_url", "image_url": {"url": MARK}}, {"type": "text", "text": MARK}]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "a chat": ("/v1/chat/completions", CHAT),
    "a stream": ("/v1/chat/completions", {**CHAT, "stream": True}),
    "a system message": (
        "/v1/chat/completions",
        {**CHAT, "messages": [{"role": "system", "content": MARK}, *CHAT["messages"]]},
    ),
    "a draft": (
        "/v1/chat/completions",
        {**CHAT, "spec_type": "draft-mtp", "spec_draft_model": "geniex/tiny-chat-draft"},
    ),
    "n-grams": ("/v1/chat/completions", {**CHAT, "spec_type": "ngram-simple"}),
    "a completion": ("/v1/completions", {"model": MODEL, "prompt": MARK}),
    "a response": ("/v1/responses", {"model": MODEL, "input": MARK, "instructions": MARK}),
    "a vector": ("/v1/embeddings", {"model": MODEL, "input": MARK}),
    "tokens": ("/v1/tokenize", {"model": MODEL, "content": MARK}),
    "a tool": (
        "/v1/chat/completions",
        {**CHAT, "tools": [{"type": "function", "function": {"name": "f", "description": MARK}}]},
    ),
    "a grammar": ("/v1/chat/completions", {**CHAT, "grammar_string": f'root ::= "{MARK}"'}),
    "a grammar that is none": (
        "/v1/chat/completions",
        {**CHAT, "grammar_string": f"root ::= {MARK} ("},
    ),
    "a schema": (
        "/v1/chat/completions",
        {
            **CHAT,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"enum": [MARK]}},
            },
        },
    ),
    "a stop": ("/v1/chat/completions", {**CHAT, "stop": [MARK]}),
    "a variable": ("/v1/chat/completions", {**CHAT, "chat_template_kwargs": {"date": MARK}}),
    "a role that is none": ("/v1/chat/completions", said(MARK, role=MARK)),
    "a wrong type": ("/v1/chat/completions", said({"a": MARK})),
    "wrong messages": ("/v1/chat/completions", {**CHAT, "messages": MARK}),
    "a context that is too short": ("/v1/chat/completions", {**CHAT, "nctx": 8}),
    "far too much": ("/v1/completions", {"model": MODEL, "prompt": MARK * 9000}),
    "an image": ("/v1/chat/completions", said(IMAGE)),
}


@pytest.mark.parametrize(("target", "fields"), CASES.values(), ids=CASES.keys())
def test_no_log_tells_what_was_said(
    talkative: LiveServer, target: str, fields: dict[str, Any]
) -> None:
    reply = asked(talkative, target, **fields)
    assert reply.status in (200, 400), reply
    again = asked(talkative, target, ("Authorization", f"Bearer {KEY}{MARK}"), **fields)
    assert again.status == 401 and MARK.encode() not in again.body
    assert send(talkative.url, head("/health", host="localhost")).status == 200
    _silent(talkative)


def test_no_log_tells_of_bodies_that_do_not_parse(talkative: LiveServer) -> None:
    for body in (f'{{"prompt": "{MARK}"', f'{{"{MARK}": NaN}}', f'{{"a": "{MARK}", "a": 1}}'):
        reply = send(talkative.url, post("/v1/completions", body.encode(), AUTH))
        assert reply.status == 400
    for raw in (f"GET /{MARK}", f"{MARK}\r\n\r\n", f"GET / HTTP/1.1\r\n{MARK}\r\n\r\n"):
        assert send(talkative.url, raw.encode(), ends=True).status in (0, 400)
    query = MARK.replace(" ", "+")
    assert send(talkative.url, head(f"/health?q={query}", host="localhost")).status == 200
    _silent(talkative)
    assert not [line for line in talkative.log if query in line]


def _silent(server: LiveServer) -> None:
    told = [line for line in server.log if MARK in line or "plugh" in line or "plover" in line]
    assert told == []


def test_nothing_else_shows_the_key(talkative: LiveServer) -> None:
    for target in ("/", "/metrics", "/openapi.json", "/v1/ps", "/v1/models"):
        reply = send(talkative.url, head(target, [AUTH], host="localhost"))
        assert reply.status == 200
        assert b"plover" not in reply.body and b"plugh" not in reply.body


def test_an_error_that_nobody_foresaw_tells_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(api_key=KEY)

    def broken(*_: object, **__: object) -> None:
        raise ValueError(f"{MARK}: {KEY}") from KeyError(MARK)

    monkeypatch.setattr(served.state.pool, "acquire", broken)
    with caplog.at_level(logging.DEBUG):
        reply = served.client.post(
            "/v1/completions", json={"prompt": MARK}, headers={"authorization": f"Bearer {KEY}"}
        )
    assert reply.status_code == 500
    assert MARK not in reply.text and "plover" not in reply.text
    # where it happened is told, and what kind it was, but not what it said
    assert "ValueError" in caplog.text and "in broken" in caplog.text
    assert MARK not in caplog.text and "plover" not in caplog.text


def test_the_list_of_processes_shows_no_key_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n", encoding="utf-8")
    server = start("--api-key-file", str(file), data_dir=tmp_path)
    try:
        server.await_listening()
        arguments = subprocess.list2cmdline([str(one) for one in server.process.args])  # type: ignore[union-attr]
        assert KEY not in arguments
        assert send(server.url, head("/v1/models", [AUTH], host="localhost")).status == 200
    finally:
        server.end()
