"""From what a user types to files: paths, the store, the built-in pair, and what must be pulled."""

import json
import os
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    AmbiguousModelError,
    GenieXError,
    GGUFError,
    IncompleteShardsError,
    LoadError,
    ModelFileError,
    ModelNotFoundError,
    ModelPathError,
    PrecisionNotFoundError,
    StoreBusyError,
    StoreError,
)
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.names import parse as parse_name
from geniex_catalogue.resolver import PullNeeded, ResolvedModel, Use, resolve
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from tests.ggufwriter import small


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def found(text: str, store: Store, use: Use = "model") -> ResolvedModel:
    resolved = resolve(text, store, use)
    assert isinstance(resolved, ResolvedModel)
    return resolved


def write(folder: Path, **files: bytes) -> Path:
    """Files by name, `__` for a slash; `.gguf` is added."""
    for name, data in files.items():
        path = folder / f"{name.replace('__', '/')}.gguf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def shards(folder: Path, stem: str, count: int, missing: tuple[int, ...] = ()) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(1, count + 1):
        path = folder / f"{stem}-{number:05d}-of-{count:05d}.gguf"
        if number not in missing:
            path.write_bytes(small(part=(number, count)))
        paths.append(path)
    return paths


def test_a_file(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, **{"m-Q4_K_M": small()})
    monkeypatch.chdir(tmp_path)
    model = found("m-Q4_K_M.gguf", store)
    assert (model.name, model.ref, model.format) == ("m-Q4_K_M.gguf", None, "gguf")
    assert (model.path, model.files) == (Path("m-Q4_K_M.gguf"), (Path("m-Q4_K_M.gguf"),))
    assert (model.precision, model.size) == ("Q4_K_M", len(small()))
    assert model.header is not None
    assert model.header.architecture == "llama"


@pytest.mark.parametrize(
    ("name", "keys", "label"),
    [
        pytest.param("m-Q8_0", {"general__file_type": 2}, "Q8_0", id="the name goes first"),
        pytest.param("UD-Q5_K_XL__m", {}, "UD-Q5_K_XL", id="then the folder"),
        pytest.param("plain__m", {"general__file_type": 2}, "Q4_0", id="then the metadata"),
        pytest.param("plain__m", {}, None, id="or nothing"),
    ],
)
def test_precision_of_a_file(
    tmp_path: Path, store: Store, name: str, keys: dict[str, int], label: str | None
) -> None:
    write(tmp_path, **{name: small("llama", None, **keys)})
    path = tmp_path / f"{name.replace('__', '/')}.gguf"
    assert found(str(path), store).precision == label


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_shard_means_the_set(tmp_path: Path, store: Store, number: int) -> None:
    paths = shards(tmp_path / "s", "m-Q4_0", 3)
    write(tmp_path / "s", **{"other-Q4_0": small()})
    model = found(str(paths[number]), store)
    assert model.files == tuple(paths)
    assert model.path == paths[0]
    assert model.size == sum(path.stat().st_size for path in paths)
    assert model.header is not None
    assert len(model.header.tensors) == 3


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_to_shards_are_kept(tmp_path: Path, store: Store) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    snapshot = tmp_path / "snapshot"
    paths = shards(snapshot, "m", 2)
    for number, path in enumerate(paths):
        path.rename(blobs / f"hash{number}")
        path.symlink_to(blobs / f"hash{number}")
    assert found(str(paths[1]), store).files == tuple(paths)
    assert found(str(snapshot), store).files == tuple(paths)


def test_an_incomplete_set_is_refused(tmp_path: Path, store: Store) -> None:
    paths = shards(tmp_path / "s", "m", 3, missing=(2,))
    for text in (str(paths[0]), str(paths[2]), str(tmp_path / "s")):
        with pytest.raises(IncompleteShardsError) as caught:
            resolve(text, store)
        assert caught.value.missing == (paths[1].name,)
        assert str(tmp_path / "s") in caught.value.message


def test_a_whole_file_with_the_name_of_a_shard(tmp_path: Path, store: Store) -> None:
    write(tmp_path, **{"m-00001-of-00013": small()})
    path = tmp_path / "m-00001-of-00013.gguf"
    assert found(str(path), store).files == (path,)


def test_a_renamed_shard_is_refused(tmp_path: Path, store: Store) -> None:
    write(tmp_path, m=small(part=(1, 2)))
    with pytest.raises(GGUFError, match="part 1 of 2"):
        resolve(str(tmp_path / "m.gguf"), store)


def test_swapped_shards_are_refused(tmp_path: Path, store: Store) -> None:
    one, two = shards(tmp_path / "s", "m", 2)
    one.write_bytes(small(part=(2, 2)))
    two.write_bytes(small(part=(1, 2)))
    with pytest.raises(GGUFError, match="by its name"):
        resolve(str(one), store)


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


def test_a_damaged_shard_is_named_as_damaged(tmp_path: Path, store: Store) -> None:
    paths = shards(tmp_path / "s", "m", 2)
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    for text in (str(tmp_path / "s"), str(paths[0])):
        with pytest.raises(GGUFError, match="the file ends after"):
            resolve(text, store)


def test_a_bundle(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("b.bin", "a.bin", "tokenizer.json", "genie_config.json"):
        (folder / name).write_text("1")
    (folder / "metadata.json").write_text(json.dumps({"precision": "w4a16"}))
    model = found(str(folder), store)
    assert (model.format, model.path, model.precision) == ("qairt", folder, "W4A16")
    assert (len(model.files), model.header) == (5, None)


NOT_MODELS: dict[str, tuple[bytes, str, str]] = {
    "draft": (small("gemma4-assistant"), "a draft", "--draft-model"),
    "eagle": (small("eagle3"), "a draft", "--draft-model"),
    "projector": (small("clip"), "a projector", "the model that it belongs to"),
    "lora": (small(general__type="adapter"), "an adapter", "made for"),
    "imatrix": (small(general__type="imatrix"), "an importance matrix", "a model"),
}


@pytest.mark.parametrize(("data", "what", "hint"), NOT_MODELS.values(), ids=NOT_MODELS)
def test_files_that_are_no_models(
    tmp_path: Path, store: Store, data: bytes, what: str, hint: str
) -> None:
    write(tmp_path, m=data)
    with pytest.raises(LoadError, match=what) as caught:
        resolve(str(tmp_path / "m.gguf"), store)
    assert hint in str(caught.value.hint)


def test_a_draft_is_wanted_as_a_draft(tmp_path: Path, store: Store) -> None:
    write(tmp_path, m=small("gemma4-assistant"), p=small("clip"))
    assert found(str(tmp_path / "m.gguf"), store, "draft").header is not None
    with pytest.raises(LoadError, match="projector"):
        resolve(str(tmp_path / "p.gguf"), store, "draft")


@pytest.mark.parametrize("text", ["nope.gguf", "./nope", "/no/such/dir/x.gguf", "~/nope.gguf"])
def test_a_path_where_nothing_is(store: Store, text: str) -> None:
    with pytest.raises(ModelPathError, match="does not exist"):
        resolve(text, store)


def test_a_zip_says_how_to_import_it(tmp_path: Path, store: Store) -> None:
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(GGUFError, match="zip") as caught:
        resolve(str(tmp_path / "b.zip"), store)
    assert "--local-path" in str(caught.value.hint)


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


def test_an_empty_folder(tmp_path: Path, store: Store) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(ModelNotFoundError, match="f"):
        resolve(str(tmp_path / "f"), store)


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


def test_a_set_that_its_manifest_cuts_short(store: Store, tmp_path: Path) -> None:
    ref = ModelRef("org", "repo")
    import_path(ref, shards(tmp_path / "s", "m-Q4_0", 2)[0], store)
    path = store.folder(ref) / "geniex.json"
    document = json.loads(path.read_text())
    document["ExtraFiles"] = []
    path.write_text(json.dumps(document))
    with pytest.raises(IncompleteShardsError):
        resolve("org/repo", store)


@pytest.mark.parametrize("text", ["", " ", "a/b/c", "../x/y", "a/..", "x\0y/z", "nonsense", "a/b:"])
def test_odd_texts_give_an_error_or_a_pull(store: Store, text: str) -> None:
    try:
        assert isinstance(resolve(text, store), PullNeeded)
    except GenieXError as exc:
        assert exc.message


def test_stored_parts_that_are_no_set_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    folder = tmp_path / "src"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"m-Q4_0-{number:05d}-of-00002.gguf").write_bytes(small(part=(number, 2)))
    import_path(ModelRef("local", "m"), folder, store)
    assert isinstance(resolve("local/m", store), ResolvedModel)
    stored = store.folder(ModelRef("local", "m"))
    (stored / "m-Q4_0-00002-of-00002.gguf").write_bytes(small(part=(1, 2)))
    with pytest.raises(GGUFError, match="part 1 of 2 by its header"):
        resolve("local/m", store)


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
