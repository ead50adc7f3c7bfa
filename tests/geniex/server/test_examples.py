"""The examples of docs/server.md, run as they are written against a real server."""

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.geniex.server.live import LiveServer

PAGE = (Path(__file__).parents[3] / "docs" / "server.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:18181"
ANSWER = "The capital of France is Paris."
PAIR = {"model": "geniex/tiny-chat", "spec_draft_model": "geniex/tiny-chat-draft", "nctx": 1024}


def only(kind: str, holding: str) -> str:
    (found,) = [text for name, text in BLOCKS if name == kind and holding in text]
    return str(found)


def test_curl(live_server: LiveServer) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    command = only("sh", "curl").replace(ADDRESS, live_server.url)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_openai_client(live_server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    source = only("python", "OpenAI").replace(ADDRESS, live_server.url)
    names: dict[str, Any] = {}
    exec(compile(source, "server.md", "exec"), names)
    names["client"].close()
    assert capsys.readouterr().out == ANSWER


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_the_body_with_mtp(live_server: LiveServer, path: str) -> None:
    body = {**json.loads(only("json", "spec_type")), **PAIR, "max_completion_tokens": 256}
    body["messages"] = [{"role": "user", "content": "Tell me about the owl."}]
    request = urllib.request.Request(
        live_server.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    assert answer["choices"][0]["message"]["content"]
    counted, drafted = answer["usage"]["completion_tokens_details"], answer["geniex"]["speculation"]
    # how many pay off is up to the speed of the machine, and may be none
    assert drafted["types"] == ["draft-mtp"]
    assert counted["accepted_prediction_tokens"] == drafted["accepted"]
    assert counted["rejected_prediction_tokens"] == drafted["rejected"]
    assert answer["geniex"]["warnings"] == []


def test_the_routes_in_the_page_are_those_that_are_served(live_server: LiveServer) -> None:
    with urllib.request.urlopen(f"{live_server.url}/openapi.json", timeout=60) as response:
        served = set(json.load(response)["paths"])
    table = PAGE.partition("## Routes")[2].partition("##")[0]
    rows = re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)
    named = {path for row in rows for path in re.findall(r"`(?:GET|POST) (/[^`]*)`", row)}
    named = {path.replace("{id}", "{model}") for path in named} - {"/", "/openapi.json"}
    named.add("/v1/models/{model}/unload")
    bare = {path.removeprefix("/v1") for path in named} | {"/v1"}
    assert named <= served
    assert served - named - bare == set(), "routes that the page does not name"
