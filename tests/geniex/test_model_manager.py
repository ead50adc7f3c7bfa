"""Models on disk, from Python."""

from pathlib import Path

import pytest

import geniex
from geniex import model_manager
from tests.hubserver import HubServer


@pytest.fixture
def repo(hub: HubServer, tiny_chat: Path) -> HubServer:
    data = tiny_chat.read_bytes()
    hub.add("org/repo", {"m-Q8_0.gguf": data, "m-Q4_0.gguf": data})
    return hub


def test_a_model_comes_and_goes(repo: HubServer, tmp_path: Path) -> None:
    assert set(model_manager.query("org/repo")) == {"Q4_0", "Q8_0"}
    for precision in ("Q8_0", "Q4_0"):
        stored = model_manager.pull("org/repo", precision=precision, data_dir=tmp_path)
        assert precision in stored.precisions
    assert {"org/repo:Q8_0", "org/repo:Q4_0"} < set(model_manager.list_models(data_dir=tmp_path))
    (detailed,) = model_manager.list_detailed(data_dir=tmp_path)
    assert detailed.name == "org/repo" and detailed.size > 0
    (path,) = model_manager.get_paths("org/repo:Q8_0", data_dir=tmp_path)
    assert path.is_file() and path.name == "m-Q8_0.gguf"
    assert model_manager.get_type("org/repo", data_dir=tmp_path) == "llm"
    assert model_manager.remove("org/repo:Q8_0", data_dir=tmp_path) > 0
    assert not path.exists()
    assert model_manager.clean(data_dir=tmp_path)[0] == 1
    assert model_manager.list_detailed(data_dir=tmp_path) == ()


def test_ensure_cached_pulls_once(repo: HubServer, tmp_path: Path) -> None:
    first = model_manager.ensure_cached("org/repo", precision="Q8_0", data_dir=tmp_path)
    repo.close()
    again = model_manager.ensure_cached("org/repo:Q8_0", data_dir=tmp_path)
    assert first.files == again.files and first.name == "org/repo:Q8_0"


def test_a_file_of_this_machine_is_taken_in(tiny_chat: Path, tmp_path: Path) -> None:
    model_manager.pull("local/mine", local_path=tiny_chat, how="link", data_dir=tmp_path)
    with geniex.load("local/mine", data_dir=tmp_path) as model:
        assert model.name.startswith("local/mine")
    assert model_manager.ensure_cached(str(tiny_chat), data_dir=tmp_path).path == tiny_chat


def test_built_in_models_are_here(tmp_path: Path) -> None:
    assert "geniex/tiny-chat:Q8_0" in model_manager.list_models(data_dir=tmp_path)
    assert model_manager.get_type("tiny", data_dir=tmp_path) == "llm"
    assert model_manager.resolve_alias("tiny") == "geniex/tiny-chat:Q8_0"
    with pytest.raises(geniex.GenieXError, match="geniex/tiny-chat"):
        model_manager.remove("tiny", data_dir=tmp_path)


def test_what_cannot_be(tmp_path: Path, tiny_chat: Path) -> None:
    with pytest.raises(geniex.GenieXError, match="org/none") as caught:
        model_manager.get_paths("org/none", data_dir=tmp_path)
    assert "pull" in str(caught.value.hint)
    with pytest.raises(geniex.GenieXError, match="source of its own"):
        model_manager.pull("local/x", local_path=tiny_chat, revision="main", data_dir=tmp_path)
    with pytest.raises(geniex.GenieXError, match="local_path"):
        model_manager.pull("org/repo", how="link", data_dir=tmp_path)
    with pytest.raises(geniex.GenieXError, match="other precision"):
        model_manager.pull("org/repo:m.gguf", precision="Q8_0", data_dir=tmp_path)


def test_a_precision_is_named_once() -> None:
    with pytest.raises(geniex.GenieXError, match="names the precision Q8_0"):
        model_manager.full_ref("org/repo:Q8_0", "Q4_0")
    assert str(model_manager.full_ref("org/repo:q8_0", "Q8_0")) == "org/repo:Q8_0"
    assert str(model_manager.full_ref(" Tiny ", "Q4_0")).endswith("tiny-chat:Q4_0")
