"""Stored and built-in models by their names, and what must be pulled."""

import json
import os
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    GenieXError,
    GGUFError,
    LoadError,
    PrecisionNotFoundError,
    StoreBusyError,
    StoreError,
)
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.names import parse as parse_name
from geniex_catalogue.resolver import PullNeeded, resolve
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from tests.geniex_catalogue.resolver.files import found, write
from tests.ggufwriter import small


@pytest.fixture
def stocked(store: Store, tmp_path: Path) -> Store:
    """`org/repo` in two precisions and with a draft beside; `local/mine` in one."""
    folder = write(
        tmp_path / "src",
        **{"m-Q4_0": small(), "m-Q8_0": small(), "m-assistant": small("gemma4-assistant")},
    )
    import_path(ModelRef("org", "repo"), folder, store)
    import_path(ModelRef("local", "mine"), folder / "m-Q8_0.gguf", store)
    return store


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("org/repo", "org/repo:Q4_0", id="bare takes the best"),
        pytest.param("org/repo:q8_0", "org/repo:Q8_0", id="any case"),
        pytest.param("org/repo:m-Q8_0.gguf", "org/repo:Q8_0", id="file"),
        pytest.param("ORG/Repo:Q4_0", "org/repo:Q4_0", id="name in another case"),
        pytest.param("https://huggingface.co/org/repo", "org/repo:Q4_0", id="address"),
        pytest.param("local/mine", "local/mine:Q8_0", id="local"),
    ],
)
def test_stored_models(stocked: Store, text: str, name: str) -> None:
    model = found(text, stocked)
    assert model.name == name
    assert str(model.ref) == name
    assert model.path.is_file()
    assert stocked.root in model.path.parents
    # the law: what we call it means the same again
    assert found(model.name, stocked) == model


def test_a_stored_draft_by_its_file(stocked: Store) -> None:
    name = "org/repo:m-assistant.gguf"
    model = found(name, stocked, "draft")
    assert (model.name, model.path.name) == (name, "m-assistant.gguf")
    with pytest.raises(LoadError, match="a draft"):
        resolve(name, stocked)


@pytest.mark.parametrize("text", ["org/repo:BF16", "org/repo:other.gguf"])
def test_what_a_stored_model_lacks_can_be_pulled(stocked: Store, text: str) -> None:
    needed = resolve(text, stocked)
    assert needed == PullNeeded(parse_name(text), ("Q4_0", "Q8_0"))


def test_what_a_local_model_lacks_is_an_error(stocked: Store) -> None:
    with pytest.raises(PrecisionNotFoundError, match="Q8_0"):
        resolve("local/mine:BF16", stocked)


def test_an_unknown_model_can_be_pulled(stocked: Store) -> None:
    assert resolve("org/new:Q4_0", stocked) == PullNeeded(ModelRef("org", "new", "Q4_0"))


def test_the_builtin_pair(store: Store, tiny_chat: Path) -> None:
    for text in ("tiny-chat", "geniex/tiny-chat", "geniex/tiny-chat:q8_0", "Geniex/TINY-chat"):
        model = found(text, store)
        assert (model.name, model.path) == ("geniex/tiny-chat:Q8_0", tiny_chat)
    with pytest.raises(LoadError, match="draft"):
        resolve("geniex/tiny-chat-draft", store)
    draft = found("geniex/tiny-chat-draft", store, "draft")
    assert draft.name == "geniex/tiny-chat-draft:Q8_0"
    with pytest.raises(PrecisionNotFoundError):
        resolve("geniex/tiny-chat:Q4_0", store)


def test_a_path_goes_before_a_name(
    stocked: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "cwd" / "org" / "repo", here=small())
    monkeypatch.chdir(tmp_path / "cwd")
    assert found("org/repo", stocked).files == (Path("org/repo/here.gguf"),)


def test_damage_in_the_store(stocked: Store) -> None:
    folder = stocked.folder(ModelRef("org", "repo"))
    (folder / "m-Q4_0.gguf").write_bytes(b"short")
    # the whole one is still usable, the damaged one can be pulled again
    assert found("org/repo", stocked).precision == "Q8_0"
    assert isinstance(resolve("org/repo:Q4_0", stocked), PullNeeded)
    (folder / "geniex.json").write_text("{")
    with pytest.raises(StoreError, match="damaged") as caught:
        resolve("org/repo", stocked)
    assert "geniex remove org/repo" in str(caught.value.hint)
    (stocked.folder(ModelRef("local", "mine")) / "m-Q8_0.gguf").unlink()
    with pytest.raises(StoreError, match=r"m-Q8_0\.gguf"):
        resolve("local/mine:Q8_0", stocked)


def test_a_stored_file_with_bad_content(stocked: Store) -> None:
    path = stocked.folder(ModelRef("local", "mine")) / "m-Q8_0.gguf"
    path.write_bytes(b"<html>" + bytes(path.stat().st_size - 6))
    with pytest.raises(GGUFError, match="HTML"):
        resolve("local/mine", stocked)


def test_a_cache_of_geniex(store: Store) -> None:
    folder = store.models / "qualcomm" / "Qwen3"
    folder.mkdir(parents=True)
    for name in ("w.bin", "genie_config.json"):
        (folder / name).write_text("1")
    document = {
        "Name": "qualcomm/Qwen3",
        "PluginId": "qairt",
        "ModelFile": {"N/A": {"Name": "w.bin", "Downloaded": True, "Size": 1}},
        "ExtraFiles": [{"Name": "genie_config.json", "Downloaded": True, "Size": 1}],
    }
    (folder / "geniex.json").write_text(json.dumps(document))
    model = found("ai-hub-models/Qwen3", store)
    assert (model.name, model.format, model.path) == ("qualcomm/Qwen3", "qairt", folder)
    assert found(model.name, store) == model


@pytest.mark.parametrize("text", ["", " ", "a/b/c", "../x/y", "a/..", "x\0y/z", "nonsense", "a/b:"])
def test_odd_texts_give_an_error_or_a_pull(store: Store, text: str) -> None:
    try:
        assert isinstance(resolve(text, store), PullNeeded)
    except GenieXError as exc:
        assert exc.message


@pytest.mark.parametrize("what", ["a pull", "a removal"])
def test_a_model_that_another_changes_names_who(store: Store, tmp_path: Path, what: str) -> None:
    ref = ModelRef("local", "m")
    manifest = Manifest(ref.name, "gguf", {"Q4_0": FileRecord("m-Q4_0.gguf", len(small()))})
    import_path(ref, write(tmp_path / "src", **{"m-Q4_0": small()}), store)
    if what == "a pull":
        store.remove(ref)
    with store.lock(ref):
        if what == "a pull":
            (store.stage(ref, manifest) / "m-Q4_0.gguf").write_bytes(b"x")
        else:
            (store.folder(ref) / "geniex.json").unlink()
        with pytest.raises(StoreBusyError, match=f"`local/m` is being .*process {os.getpid()}"):
            resolve("local/m", store)
    with pytest.raises(StoreError, match="cannot be used") as caught:
        resolve("local/m", store)
    assert not isinstance(caught.value, StoreBusyError)


def test_a_model_that_goes_while_it_is_looked_at(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = ModelRef("local", "m")
    import_path(ref, write(tmp_path / "src", **{"m-Q4_0": small()}), store)
    find = store.find
    removed: list[int] = []

    def find_then_remove(asked: ModelRef) -> StoredModel | None:
        found = find(asked)
        if not removed:
            removed.append(1)
            (store.folder(ref) / "m-Q4_0.gguf").unlink()
        return found

    monkeypatch.setattr(store, "find", find_then_remove)
    with pytest.raises(StoreBusyError, match="changed or removed") as caught:
        resolve("local/m", store)
    assert caught.value.hint == "run it again"
