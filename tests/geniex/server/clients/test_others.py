"""Clients that are not the official one, each in a process of its own: some take long to import."""

from pathlib import Path

import pytest

from tests.geniex.server.clients.conftest import Target, own_process

FOLDER = Path(__file__).parent
# or it asks the network what models cost
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@pytest.mark.parametrize(
    ("client", "target"),
    [
        pytest.param("langchain", "tiny", id="langchain"),
        pytest.param("litellm", "tiny", id="litellm"),
        pytest.param("pydantic_ai", "tiny", id="pydantic-ai"),
        pytest.param("pydantic_ai", "smollm2", marks=pytest.mark.slow, id="pydantic-ai-smollm2"),
    ],
    indirect=["target"],
)
def test_it_answers_streams_calls_and_gives_structured_output(
    client: str, target: Target, tmp_path: Path
) -> None:
    script = str(FOLDER / f"use_{client}.py")
    words = [script, target.base_url, target.model, target.answer or ""]
    own_process(words, home=tmp_path, **OFFLINE)
