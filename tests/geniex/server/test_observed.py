"""What a request leaves in the log: its id in every line, and one line with what it took."""

import json
import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from geniex.log_lines import request_id
from geniex_runtimes.fake import FakeRuntime
from tests.geniex.server.conftest import MODEL, Serve

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "the secret of the owl"}]}


class Lines(logging.Handler):
    """What was logged, each line with the request that it is for."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str | None, logging.LogRecord]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((request_id.get(), record))

    def access(self) -> list[dict[str, Any]]:
        return [one.__dict__["fields"] for _, one in self.records if "fields" in one.__dict__]


@pytest.fixture
def lines() -> Any:
    handler = Lines()
    logger = logging.getLogger("geniex")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_what_a_request_took(client: TestClient, lines: Lines) -> None:
    answer = client.post("/v1/chat/completions?key=hidden", json=CHAT).json()
    (found,) = lines.access()
    assert (found["method"], found["route"], found["status"]) == (
        "POST",
        "/v1/chat/completions",
        200,
    )
    assert found["model"] == answer["model"]
    assert found["prompt_tokens"] == answer["usage"]["prompt_tokens"]
    assert found["generated_tokens"] == answer["usage"]["completion_tokens"]
    assert found["finish_reason"] == "stop"
    assert 0 <= found["ttft"] <= found["seconds"]
    assert found["load_time"] > 0 and found["queue_time"] >= 0 and "cached_tokens" in found
    assert "cancelled" not in found and "error" not in found


def test_the_route_is_known_where_the_type_was_not_given(client: TestClient, lines: Lines) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    client.post("/v1/chat/completions", content=json.dumps(CHAT), headers=headers)
    assert lines.access()[0]["route"] == "/v1/chat/completions"


def test_no_prompt_no_answer_no_query(client: TestClient, lines: Lines) -> None:
    headers = {"authorization": "Bearer hidden-key"}
    client.post("/v1/chat/completions?key=hidden", json=CHAT, headers=headers)
    client.get("/nothing?key=hidden", headers=headers)
    said = "\n".join(f"{record.getMessage()} {record.__dict__}" for _, record in lines.records)
    assert "owl" not in said and "hidden" not in said


def test_every_line_of_a_request_has_its_id(serve: Serve, lines: Lines) -> None:
    client = serve(FakeRuntime(name="llama_cpp")).client
    client.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "mine-1"})
    client.post(f"/v1/models/{MODEL}/unload", headers={"x-request-id": "mine-2"})
    names = [name for name, record in lines.records if record.name.startswith("geniex.server")]
    assert "mine-1" in names and "mine-2" in names
    # threads that the request started, the load's among them, speak in its name
    lines.records.clear()
    broken = serve(opener=_broken).client
    broken.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "mine-3"})
    said = [(name, record.getMessage()) for name, record in lines.records]
    assert ("mine-3", f"loading `{MODEL}` failed unexpectedly") in said


def _broken(*_: object, **__: object) -> Any:
    raise ZeroDivisionError


def test_an_error_is_named(client: TestClient, lines: Lines) -> None:
    client.post("/v1/chat/completions", json={**CHAT, "model": "no/where"})
    (found,) = lines.access()
    assert (found["status"], found["error"]) == (404, "ModelNotFoundError")


def test_vectors_count_as_prompt_tokens(client: TestClient, lines: Lines) -> None:
    body = {"model": MODEL, "input": ["one", "two"]}
    answer = client.post("/v1/embeddings", json=body).json()
    (found,) = lines.access()
    assert found["prompt_tokens"] == answer["usage"]["prompt_tokens"] > 0
