"""The `llm` command against a real server, by its setting for servers like OpenAI's."""

import json
from pathlib import Path

import pytest

from tests.geniex.server.clients.conftest import ANSWER, QUESTION, TINY, Target, own_process
from tests.geniex.server.live import LiveServer

SCHEMA = {
    "type": "object",
    "properties": {"country": {"type": "string", "enum": ["France", "Italy"]}},
    "required": ["country"],
    "additionalProperties": False,
}


@pytest.fixture
def target(live_server: LiveServer) -> Target:
    """The built-in model."""
    return Target(live_server.base_url, TINY, ANSWER)


@pytest.fixture
def home(target: Target, tmp_path: Path) -> Path:
    """A home of `llm` that knows the target as `ours`."""
    listed = {
        "model_id": "ours",
        "model_name": target.model,
        "api_base": target.base_url,
        "supports_schema": True,
        "supports_tools": True,
    }
    # JSON is YAML
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([listed]), encoding="utf-8")
    return tmp_path


def llm(home: Path, *words: str) -> str:
    """What `llm` prints, run with these words."""
    command = ["-m", "llm", "-m", "ours", "--key", "none", "-o", "temperature", "0"]
    limit = ["-o", "max_tokens", "60"]
    said = own_process([*command, *limit, *words], home=home, LLM_USER_PATH=str(home))
    return said.strip()


def test_it_answers(home: Path, target: Target) -> None:
    assert llm(home, QUESTION) == target.answer


def test_it_gives_structured_output(home: Path) -> None:
    said = json.loads(llm(home, QUESTION, "--no-stream", "--schema", json.dumps(SCHEMA)))
    assert said["country"] in ("France", "Italy")
