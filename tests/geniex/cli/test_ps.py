"""`geniex ps`: the server's models as a table and as JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cliharness import Cli
from tests.geniex.servedby import ScriptedServer, scripted_server

RESIDENT: dict[str, Any] = {
    "id": "org/repo:Q4_0",
    "runtime": "llama_cpp",
    "compute": "hybrid",
    "devices": ["CUDA0", "CPU"],
    "context_length": 8192,
    "slots": 4,
    "busy": 0,
    "waiting": 0,
    "bytes": 3 << 30,
    "idle_for": 2.0,
    "expires_in": 150.4,
    "pinned": False,
    "speculation": ["draft-mtp"],
    "loading": False,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Iterator[ScriptedServer]:
    with scripted_server() as made:
        monkeypatch.setenv("GENIEX_HOST", made.host)
        yield made


def test_a_table(cli: Cli, server: ScriptedServer) -> None:
    server.residents = [RESIDENT]
    result = cli("ps")
    head, row = result.out.splitlines()
    for words in ("NAME", "SIZE", "CONTEXT", "UNTIL"):
        assert words in head
    for words in (
        "org/repo:Q4_0",
        "3.0 GiB",
        "CUDA0,CPU",
        "8192",
        "0/4",
        "draft-mtp",
        "2 min 30 s",
    ):
        assert words in row
    assert result.code == 0 and result.err == ""
    assert server.seen[-1][0] == "/v1/ps"


@pytest.mark.parametrize(
    ("facts", "until", "slots"),
    [
        ({"busy": 4, "waiting": 3, "expires_in": None}, "busy", "4/4 (+3)"),
        ({"expires_in": None}, "for ever", "0/4"),
        ({"expires_in": 9.6}, "10 s", "0/4"),
        ({"pinned": True, "expires_in": None}, "pinned", "0/4"),
        ({"loading": True, "slots": 0}, "loading", "0/0"),
        ({"crashed": True, "pinned": True}, "crashed", "0/4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_long_it_stays(
    cli: Cli, server: ScriptedServer, facts: dict[str, Any], until: str, slots: str
) -> None:
    server.residents = [{**RESIDENT, **facts}]
    row = cli("ps").out.splitlines()[1]
    assert row.endswith(f"  {until}") and f"  {slots}  " in row


def test_json_is_what_the_server_says(cli: Cli, server: ScriptedServer) -> None:
    server.residents = [RESIDENT]
    assert cli("ps", "--json").json == [RESIDENT]


def test_nothing_is_loaded(cli: Cli, server: ScriptedServer) -> None:
    result = cli("ps")
    assert result.out.startswith("NAME") and "nothing is loaded" in result.err
    assert cli("ps", "--json").json == []


def test_what_is_no_list(cli: Cli, server: ScriptedServer) -> None:
    server.refusals["/ps"] = (200, {"hello": "world"}, {})
    result = cli("ps")
    assert result.code == 1 and "none" in result.err


def test_the_key_is_asked_for(cli: Cli, server: ScriptedServer) -> None:
    error = {
        "message": "it wants a key",
        "code": "invalid_api_key",
        "type": "invalid_request_error",
    }
    server.refusals["/ps"] = (401, {"error": error}, {})
    result = cli("ps")
    assert result.code == 1 and "GENIEX_APIKEY" in result.err
