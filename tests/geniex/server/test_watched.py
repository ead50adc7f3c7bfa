"""A real server that is watched in every way: stderr, prompts, what is kept for a report."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from geniex.bug_report.last_lines import read_last_lines
from tests.geniex.server.conftest import MODEL
from tests.geniex.server.live import running

BODY = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "the secret of the owl"}],
    "max_tokens": 3,
    "temperature": 0,
}


@dataclass
class Watched:
    """What a server left, of one request."""

    lines: list[dict[str, Any]]
    answer: dict[str, Any]
    prompts: list[dict[str, Any]]
    kept: list[str]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    data = tmp_path_factory.mktemp("watched")
    words = ("--log", "debug", "--log-format", "json", "--log-prompts", str(data / "prompts"))
    # an exporter that is not there: one warning
    environ = {"OTEL_TRACES_EXPORTER": "console", "GENIEX_APIKEY": "hidden-key"}
    with running(*words, data_dir=data, environ=environ) as server:
        headers = {"x-request-id": "mine-1", "authorization": "Bearer hidden-key"}
        url = f"{server.url}/v1/chat/completions?key=hidden-key"
        answer = httpx2.post(url, json=BODY, headers=headers, timeout=60).json()
        httpx2.post(url, json=BODY, timeout=60)
        server.await_log("chat/completions 401")
    yield Watched(
        # each a line of JSON, or this fails
        [json.loads(line) for line in server.log],
        answer,
        [json.loads(line) for line in _only(data / "prompts").read_text().splitlines()],
        read_last_lines(data),
    )


def _only(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_every_line_is_an_object_whoever_wrote_it(watched: Watched) -> None:
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in watched.lines)
    said = "\n".join(line["message"] for line in watched.lines)
    for text in ("Listening on ", "the server begins", "the server has ended", "Prompts and "):
        assert text in said
    loggers = {line["logger"] for line in watched.lines}
    assert {"geniex.cli", "geniex.server", "geniex.llama_cpp", "uvicorn.error"} <= loggers


def test_the_line_of_a_request(watched: Watched) -> None:
    (line,) = [one for one in watched.lines if one.get("request_id") == "mine-1" and "ttft" in one]
    assert (line["route"], line["status"]) == ("/v1/chat/completions", 200)
    assert line["generated_tokens"] == watched.answer["usage"]["completion_tokens"] == 3


def test_no_prompt_and_no_key_is_in_a_line(watched: Watched) -> None:
    said = json.dumps(watched.lines) + "".join(watched.kept)
    assert "owl" not in said and "hidden-key" not in said


def test_prompts_of_who_was_let_in(watched: Watched) -> None:
    (record,) = watched.prompts
    assert record["request"] == BODY and record["answer"] == watched.answer
    assert record["request_id"] == "mine-1"
    assert "hidden-key" not in json.dumps(record)


def test_warnings_are_kept_for_a_report(watched: Watched) -> None:
    (line,) = [line for line in watched.kept if "OTEL_*" in line]
    assert "WARNING geniex.server.tracing" in line
