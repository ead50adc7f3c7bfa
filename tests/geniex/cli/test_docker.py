"""Docker Hub at the terminal, and `--model-hub`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex.config import Settings
from geniex.session import open_model
from tests.cliharness import Cli
from tests.dockerhub import GGUF, TEMPLATE, Registry, running
from tests.ggufwriter import small
from tests.hubserver import HubServer

JINJA = b"{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


@pytest.fixture
def registry(hub: HubServer, monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Iterator[Registry]:
    """A registry with the built-in model's file, and another template."""
    with running(hub) as made:
        monkeypatch.setenv("GENIEX_DOCKERBASEURL", made.url)
        yield made


def test_the_template_that_came_along_is_used(
    cli: Cli, registry: Registry, data_dir: Path, tiny_chat: Path
) -> None:
    weights = registry.layer(GGUF, tiny_chat.read_bytes())
    registry.model("ai/tiny", "latest", weights, registry.layer(TEMPLATE, JINJA))
    result = cli("infer", "docker.io/ai/tiny", "-p", "hi", "--max-tokens", "2", "--yes")
    assert result.code == 0, result.err
    assert "from docker" in result.err
    with open_model("ai/tiny", Settings(data_dir=data_dir)) as model:
        assert model.template.source == JINJA.decode()


def test_model_hub(cli: Cli, registry: Registry, hub: HubServer) -> None:
    registry.model("ai/small", "8B-f16", registry.layer(GGUF, small()))
    hub.add("qualcomm/x", {"m-Q4_0.gguf": small()})
    for args in (("ai/small:8B-f16",), ("ai/small", "--precision", "8B-f16")):
        result = cli("pull", *args, "--model-hub", "docker", "--dry-run", "--json")
        assert result.code == 0, result.err
        assert (result.json["name"], result.json["hub"]) == ("docker.io/ai/small:8B-F16", "docker")
    result = cli("pull", "qualcomm/x", "--model-hub", "hf")
    assert result.code == 0, result.err
    assert cli("list", "--json").json[0]["runtime"] == "llama_cpp"


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("org/repo", "--model-hub", "aihub"), 2, "no model of the AI Hub"),
        (("docker.io/ai/x", "--model-hub", "hf"), 2, "a name on Docker Hub"),
        (("docker.io/ai/x",), 3, "not found"),
        (("x", "--model-hub", "dockerhub"), 2, "docker.io/ai/smollm2"),
        (("ai/x", "--model-hub", "docker", "--file", "a.gguf"), 2, "no files or drafts"),
        (("x", "--model-hub", "modelscope"), 2, "modelscope"),
    ],
)
def test_pulls_that_fail(
    cli: Cli, registry: Registry, args: tuple[str, ...], code: int, says: str
) -> None:
    result = cli("pull", *args)
    assert result.code == code
    assert says in result.err
