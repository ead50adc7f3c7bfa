"""Folders that a path leads to: one model, or which of several."""

import json
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    AmbiguousModelError,
    GGUFError,
    ModelFileError,
    ModelNotFoundError,
    ModelPathError,
)
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.resolver import PullNeeded, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.resolver.files import found, write
from tests.ggufwriter import small


def test_a_folder_with_one_model(tmp_path: Path, store: Store) -> None:
    folder = write(
        tmp_path / "f",
        **{
            "Q4_K_M__m": small(),
            "mmproj-F16": small("clip"),
            "assistant": small("gemma4-assistant"),
            ".cache__x": b"junk",
        },
    )
    model = found(str(folder), store)
    assert (model.files, model.precision) == ((folder / "Q4_K_M" / "m.gguf",), "Q4_K_M")
    draft = found(str(folder), store, "draft")
    assert draft.files == (folder / "assistant.gguf",)


def test_a_folder_with_several_models_names_them(tmp_path: Path, store: Store) -> None:
    folder = write(tmp_path / "f", **{"m-Q4_0": small(), "m-Q8_0": small()})
    with pytest.raises(AmbiguousModelError) as caught:
        resolve(str(folder), store)
    assert {Path(name) for name in caught.value.candidates} == {
        folder / "m-Q4_0.gguf",
        folder / "m-Q8_0.gguf",
    }
    assert "path" in str(caught.value.hint)


def test_a_damaged_neighbour_is_no_hindrance(tmp_path: Path, store: Store) -> None:
    folder = write(tmp_path / "f", good=small(), bad=small()[:-1])
    assert found(str(folder), store).files == (folder / "good.gguf",)
    (folder / "good.gguf").unlink()
    with pytest.raises(GGUFError, match=r"bad\.gguf"):
        resolve(str(folder), store)


def test_a_bundle(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("b.bin", "a.bin", "tokenizer.json", "genie_config.json"):
        (folder / name).write_text("1")
    (folder / "metadata.json").write_text(json.dumps({"precision": "w4a16"}))
    model = found(str(folder), store)
    assert (model.format, model.path, model.precision) == ("qairt", folder, "W4A16")
    assert (len(model.files), model.header) == (5, None)


def test_a_bundle_that_lost_its_binaries_is_one_still(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "metadata.json").write_text("{}")
    with pytest.raises(ModelNotFoundError, match="no model"):
        resolve(str(folder), store)
    (folder / "genie_config.json").write_text("{}")
    assert found(str(folder), store).format == "qairt"


def test_a_folder_that_cannot_be_read(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "f", m=small())

    def refuse(path: Path, pattern: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "glob", refuse)
    with pytest.raises(ModelFileError, match="Permission denied") as caught:
        resolve(str(folder) + "/", store)
    assert str(folder) in caught.value.message
    with pytest.raises(ModelFileError, match="Permission denied"):
        import_path(ModelRef("a", "b"), folder, store)


@pytest.mark.parametrize("name", ["empty", "a/b/c", "./org/repo"])
def test_an_empty_folder_whose_path_is_no_name(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(ModelPathError, match=f"folder `{name}` holds no model"):
        resolve(name, store)


def test_an_empty_folder_with_a_models_name_is_mentioned(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = resolve("org/repo", store)
    assert isinstance(before, PullNeeded) and before.aside == ""
    (tmp_path / "org/repo").mkdir(parents=True)
    found = resolve("org/repo", store)
    assert isinstance(found, PullNeeded) and found.folder == "org/repo"
    assert "folder `org/repo` holds no model" in found.aside
    assert resolve("org/repo", store, paths=False) == before


def test_an_empty_folder(tmp_path: Path, store: Store) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(ModelNotFoundError, match="f"):
        resolve(str(tmp_path / "f"), store)
