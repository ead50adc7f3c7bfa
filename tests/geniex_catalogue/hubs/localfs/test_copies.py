"""Copies of files and folders: which files are taken, and under which label."""

import errno
import os
import stat
from pathlib import Path

import pytest

from geniex_catalogue.errors import PrecisionNotFoundError
from geniex_catalogue.hubs.localfs import Mode, import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, Recorder, names, untouched
from tests.geniex_catalogue.hubs.localfs.sources import write
from tests.ggufwriter import small


def test_a_file_is_copied(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "src", {"m-Q4_K_M.gguf": small()}) / "m-Q4_K_M.gguf"
    seen = Recorder()
    model = import_path(REF, path, store, progress=seen)
    assert (model.name, model.status, model.precisions) == ("local/mine", "ready", ("Q4_K_M",))
    copy = store.folder(REF) / "m-Q4_K_M.gguf"
    assert copy.read_bytes() == path.read_bytes()
    assert not copy.samefile(path)
    assert seen.calls == [("start", "m-Q4_K_M.gguf"), ("finish", "m-Q4_K_M.gguf")]
    assert seen.bytes == len(small())


@pytest.mark.parametrize("clones", [True, False], ids=["kernel", "by hand"])
def test_copies_are_exact(
    store: Store, tmp_path: Path, tiny_chat: Path, clones: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not clones:
        monkeypatch.setattr(os, "copy_file_range", _no_clones, raising=False)
    import_path(REF, tiny_chat, store)
    copy = store.folder(REF) / tiny_chat.name
    assert copy.read_bytes() == tiny_chat.read_bytes()
    assert copy.stat().st_mode & stat.S_IWUSR


def _no_clones(*args: object) -> int:
    raise OSError(errno.EXDEV, "no")


LABELS: dict[str, tuple[str, dict[str, int], str | None, str]] = {
    "name": ("m-Q8_0.gguf", {"general__file_type": 2}, None, "Q8_0"),
    "folder": ("Q5_K_M/m.gguf", {}, None, "Q5_K_M"),
    "metadata": ("f/m.gguf", {"general__file_type": 2}, None, "Q4_0"),
    "nothing": ("f/m.gguf", {}, None, "DEFAULT"),
    "the user's, where the name says nothing": ("f/m.gguf", {}, "Q6_K", "Q6_K"),
    "asked as it is": ("m-Q8_0.gguf", {}, "q8_0", "Q8_0"),
}


@pytest.mark.parametrize(("name", "keys", "asked", "label"), LABELS.values(), ids=LABELS)
def test_label(
    store: Store, tmp_path: Path, name: str, keys: dict[str, int], asked: str | None, label: str
) -> None:
    folder = write(tmp_path / "src", {name: small("llama", None, **keys)})
    ref = REF.with_precision(asked) if asked else REF
    assert import_path(ref, folder / name, store).precisions == (label,)


def test_a_label_that_is_not_there(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "src", {"m-Q8_0.gguf": small()}) / "m-Q8_0.gguf"
    with pytest.raises(PrecisionNotFoundError, match="Q8_0"):
        import_path(REF.with_precision("Q4_0"), path, store)
    assert untouched(store)


@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_shard_brings_its_set(store: Store, tmp_path: Path, mode: Mode, number: int) -> None:
    parts = {f"m-Q4_0-{n:05d}-of-00003.gguf": small(part=(n, 3)) for n in (1, 2, 3)}
    folder = write(tmp_path / "src", {**parts, "other-Q4_0.gguf": small()})
    model = import_path(REF, folder / f"m-Q4_0-{number:05d}-of-00003.gguf", store, mode)
    assert [record.name for record in model.records("Q4_0")] == sorted(parts)
    assert names(store) == (set() if mode == "in_place" else set(parts))
    resolved = resolve("local/mine", store)
    assert isinstance(resolved, ResolvedModel)
    assert len(resolved.files) == 3


def test_a_folder_with_everything(store: Store, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "src",
        {
            "Q4_0/m.gguf": small(),
            "m-Q8_0.gguf": small(),
            "mmproj-F32.gguf": small("clip"),
            "mmproj-F16.gguf": small("clip"),
            "m-assistant-Q8_0.gguf": small("gemma4-assistant"),
            "imatrix.gguf": small(general__type="imatrix"),
            "README.md": b"x",
            "a/tokenizer.json": b"{}",
            "tokenizer.json": b"{}",
            "._m-Q8_0.gguf": b"junk of another system",
        },
    )
    model = import_path(REF, folder, store)
    assert model.precisions == ("Q4_0", "Q8_0")
    assert names(store) == {
        "Q4_0/m.gguf",
        "m-Q8_0.gguf",
        "mmproj-F16.gguf",
        "m-assistant-Q8_0.gguf",
    }
    assert model.manifest is not None
    assert model.manifest.projector is not None
    assert model.manifest.model_type == "vlm"


def test_one_precision_of_a_folder(store: Store, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "src", {"m-Q4_0.gguf": small(), "m-Q8_0.gguf": small(), "bad.gguf": b"junk"}
    )
    assert import_path(REF.with_precision("Q8_0"), folder, store).precisions == ("Q8_0",)
    assert names(store) == {"m-Q8_0.gguf"}
    import_path(ModelRef("local", "mine", file="m-Q4_0.gguf"), folder, store)
    assert names(store) == {"m-Q8_0.gguf", "m-Q4_0.gguf"}


def test_two_files_of_one_label_go_by_their_names(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"a-Q4_0.gguf": small(), "b-Q4_0.gguf": small()})
    import_path(REF, folder, store)
    for name in ("a-Q4_0.gguf", "b-Q4_0.gguf"):
        resolved = resolve(f"local/mine:{name}", store)
        assert isinstance(resolved, ResolvedModel)
        assert (resolved.path.name, resolved.name) == (name, f"local/mine:{name}")


def test_a_draft_alone_is_a_model_of_the_store(store: Store, tiny_chat_draft: Path) -> None:
    import_path(REF, tiny_chat_draft, store)
    assert isinstance(resolve("local/mine", store, "draft"), ResolvedModel)


def test_a_stopped_import_leaves_what_was_there(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"m-Q4_0.gguf": small(), "n-Q8_0.gguf": small()})
    with pytest.raises(KeyboardInterrupt):
        import_path(REF, folder, store, progress=Recorder(stop_at=len(small()) + 1))
    assert untouched(store)
    import_path(REF, folder / "m-Q4_0.gguf", store)
    with pytest.raises(KeyboardInterrupt):
        import_path(REF, folder / "n-Q8_0.gguf", store, progress=Recorder(stop_at=1))
    (model,) = store.list()
    assert (model.precisions, model.partial, model.reason) == (("Q4_0",), (), None)
