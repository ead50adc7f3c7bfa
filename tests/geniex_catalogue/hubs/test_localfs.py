"""Imports: what is taken, under which label, how, and what is refused before a byte is written."""

import errno
import json
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue import durable
from geniex_catalogue.errors import (
    DiskSpaceError,
    GenieXError,
    GGUFError,
    IncompleteShardsError,
    LoadError,
    ManifestError,
    ModelFileError,
    ModelNotFoundError,
    ModelPathError,
    PrecisionNotFoundError,
    StoreError,
    UsageError,
)
from geniex_catalogue.hubs.localfs import Mode, import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.ggufwriter import build, small
from tests.ggufwriter import entry as entry_of

REF = ModelRef("local", "mine")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def names(store: Store, ref: ModelRef = REF) -> set[str]:
    """The files of a stored model, without lock and manifest."""
    folder = store.folder(ref)
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return found - {"geniex.json", ".lock"}


def untouched(store: Store) -> bool:
    """Whether nothing at all is left in the store."""
    return not store.models.exists() or not list(store.models.iterdir())


class Recorder:
    """A progress that remembers, and may stop the transfer."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.bytes = 0
        self.stop_at = stop_at

    def start(self, file: str, total: int | None, present: int) -> None:
        self.calls.append(("start", file))

    def advance(self, file: str, count: int) -> None:
        self.bytes += count
        if self.stop_at is not None and self.bytes >= self.stop_at:
            raise KeyboardInterrupt

    def retry(self, file: str, reason: str, wait: float) -> None:
        raise AssertionError

    def finish(self, file: str) -> None:
        self.calls.append(("finish", file))


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


def test_hard_links(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    import_path(REF, path, store, "link")
    assert (store.folder(REF) / "m-Q4_0.gguf").samefile(path)
    assert store.remove(REF) == 0
    assert path.exists()


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_hard_link_goes_to_the_file_behind_a_link(store: Store, tmp_path: Path) -> None:
    blob = write(tmp_path / "src", {"blob": small()}) / "blob"
    link = tmp_path / "src" / "m-Q4_0.gguf"
    link.symlink_to(blob)
    import_path(REF, link, store, "link")
    stored = store.folder(REF) / "m-Q4_0.gguf"
    assert not stored.is_symlink()
    assert stored.samefile(blob)


def test_no_hard_link_across_filesystems(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"

    def refuse(*args: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(UsageError, match="hard-linked") as caught:
        import_path(REF, path, store, "link")
    assert "--in-place" in str(caught.value.hint)
    assert untouched(store)


def test_in_place(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    monkeypatch.chdir(tmp_path / "src")
    model = import_path(REF, Path("m-Q4_0.gguf"), store, "in_place")
    assert names(store) == set()
    assert model.size == len(small())
    resolved = resolve("local/mine", store)
    assert isinstance(resolved, ResolvedModel)
    assert resolved.path == path
    path.rename(tmp_path / "moved.gguf")
    (listed,) = store.list()
    assert listed.status == "damaged"
    assert str(path) in str(listed.reason)
    with pytest.raises(GenieXError, match=r"m-Q4_0\.gguf"):
        resolve("local/mine", store)
    store.remove(REF)
    assert (tmp_path / "moved.gguf").exists()


def test_in_place_of_the_store_itself(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    import_path(REF, path, store)
    stored = store.folder(REF) / "m-Q4_0.gguf"
    with pytest.raises(UsageError, match="in the store already"):
        import_path(REF, stored, store, "in_place")
    # onto itself by copy changes nothing
    assert import_path(REF, stored, store).precisions == ("Q4_0",)
    assert stored.read_bytes() == small()


def test_a_bundle_folder(store: Store, tmp_path: Path) -> None:
    facts = {"precision": "w4a16", "genie": {"supports_vision": True}}
    folder = write(
        tmp_path / "src",
        {
            "metadata.json": json.dumps(facts).encode(),
            "genie_config.json": b"{}",
            "b.bin": b"2",
            "a.bin": b"1",
            "tokenizer.json": b"{}",
            ".hidden": b"x",
            "sub/other.bin": b"x",
        },
    )
    model = import_path(REF, folder, store)
    assert (model.format, model.precisions) == ("qairt", ("W4A16",))
    assert model.records("W4A16")[0].name == "a.bin"
    assert names(store) == {
        "metadata.json",
        "genie_config.json",
        "a.bin",
        "b.bin",
        "tokenizer.json",
    }
    assert model.manifest is not None
    assert model.manifest.model_type == "vlm"
    resolved = resolve("local/mine", store)
    assert isinstance(resolved, ResolvedModel)
    assert (resolved.format, resolved.path) == ("qairt", store.folder(REF))


def shipped(**models: str) -> bytes:
    files = {k: {"Name": v, "Downloaded": True, "Size": len(small())} for k, v in models.items()}
    return json.dumps({"Name": "x/y", "ModelFile": files, "Note": 1}).encode()


def test_a_shipped_manifest_is_honoured(store: Store, tmp_path: Path) -> None:
    manifest = shipped(SPECIAL="a.gguf", OTHER="b.gguf")
    folder = write(
        tmp_path / "src",
        {"geniex.json": manifest, "a.gguf": small(), "b.gguf": small(), "c.gguf": small()},
    )
    model = import_path(REF, folder, store)
    assert set(model.precisions) == {"SPECIAL", "OTHER"}
    assert model.manifest is not None
    assert (model.manifest.name, model.manifest.other) == ("local/mine", {"Note": 1})
    assert names(store) == {"a.gguf", "b.gguf"}


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        pytest.param(b"{", ManifestError, id="damaged"),
        pytest.param(shipped(Q4_0="gone.gguf"), UsageError, id="missing file"),
        pytest.param(shipped(Q4_0="../secret"), ManifestError, id="leads out"),
        pytest.param(shipped(Q4_0="short.gguf"), UsageError, id="wrong size"),
        pytest.param(shipped(Q4_0="junk.gguf"), GGUFError, id="no GGUF"),
        pytest.param(shipped(), UsageError, id="empty"),
    ],
)
def test_a_bad_shipped_manifest(
    store: Store, tmp_path: Path, manifest: bytes, error: type[GenieXError]
) -> None:
    files = {"geniex.json": manifest, "short.gguf": b"x", "junk.gguf": b"x" * len(small())}
    with pytest.raises(error):
        import_path(REF, write(tmp_path / "src", files), store)
    assert untouched(store)


REFUSED: dict[str, tuple[dict[str, bytes], type[GenieXError], str]] = {
    "empty folder": ({"x/y/z/deep": b""}, UsageError, "no model"),
    "safetensors": ({"model.safetensors": b"x", "config.json": b"{}"}, UsageError, "safetensors"),
    "torch": ({"model.bin": b"x"}, UsageError, "other programs"),
    "projector alone": ({"mmproj.gguf": small("clip")}, LoadError, "projector"),
    "adapter alone": ({"lora.gguf": small(general__type="adapter")}, LoadError, "adapter"),
    "damaged": ({"m.gguf": small()[:-1]}, GGUFError, "ends after"),
    "damaged besides": ({"m.gguf": small(), "n.gguf": b"<html>"}, GGUFError, "HTML"),
    "shards renamed among each other": (
        {
            "m-00001-of-00002.gguf": build(
                [entry_of("split.no", 1, "u16"), entry_of("split.count", 2, "u16")]
            ),
            "m-00002-of-00002.gguf": small(part=(1, 2)),
        },
        GGUFError,
        "part 2 of 2 by its header, but part 1 of 2 by its name",
    ),
    "shards of two models": (
        {
            "m-00001-of-00002.gguf": small(part=(1, 2), split__tensors__count=3),
            "m-00002-of-00002.gguf": small(part=(2, 2), split__tensors__count=3),
        },
        GGUFError,
        "hold 2 tensors, where 3 belong to it",
    ),
    "shard missing": (
        {"m-00001-of-00002.gguf": small(part=(1, 2))},
        IncompleteShardsError,
        "m-00002-of-00002.gguf",
    ),
}


@pytest.mark.parametrize(("files", "error", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_refused_before_anything_is_written(
    store: Store,
    tmp_path: Path,
    files: dict[str, bytes],
    error: type[GenieXError],
    reason: str,
    packed: bool,
) -> None:
    path = pack(tmp_path, files) if packed else write(tmp_path / "src", files)
    with pytest.raises(error) as caught:
        import_path(REF, path, store)
    assert reason in caught.value.message
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint
    assert untouched(store)


def test_a_path_that_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelPathError, match="does not exist"):
        import_path(REF, tmp_path / "nope.gguf", store)


def test_a_file_of_a_folder_that_is_not_there(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"m-Q4_0.gguf": small()})
    with pytest.raises(ModelNotFoundError):
        import_path(ModelRef("local", "mine", file="n.gguf"), folder, store)


def test_too_little_room(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"

    class Usage:
        free = 10

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(DiskSpaceError, match="10 bytes"):
        import_path(REF, path, store)
    assert untouched(store)
    assert import_path(REF, path, store, "link").status == "ready"


def test_a_disk_that_fills_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    with pytest.raises(DiskSpaceError):
        import_path(REF, path, store)
    assert untouched(store)


@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
def test_a_disk_too_full_for_the_manifest(
    store: Store, tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "src", {"m-Q4_0.gguf": small()}) / "m-Q4_0.gguf"
    written: list[Path] = []

    def full(target: Path, data: bytes) -> None:
        written.append(target)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(data)

    monkeypatch.setattr(durable, "write", full)
    with pytest.raises(StoreError, match="No space left"):
        import_path(REF, path, store, mode)
    assert untouched(store)
    assert path.exists()


def test_a_name_that_the_filesystem_refuses_leaves_nothing(store: Store, tmp_path: Path) -> None:
    path = pack(tmp_path, {"m" * 300 + ".gguf": small(), "m-Q4_0.gguf": small()})
    with pytest.raises(GenieXError, match="mmm"):
        import_path(REF, path, store)
    assert untouched(store)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among files")
def test_a_pipe_among_a_bundle_makes_nobody_wait(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"genie_config.json": b"{}", "a.bin": b"1"})
    os.mkfifo(folder / "metadata.json")
    assert import_path(REF, folder, store).format == "qairt"
    assert names(store) == {"genie_config.json", "a.bin"}


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


def pack(folder: Path, files: dict[str, bytes], top: str = "") -> Path:
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(top + name, data)
    return path


BUNDLE = {
    "metadata.json": b'{"precision": "w8a16"}',
    "genie_config.json": b"{}",
    "part_1_of_1.bin": b"weights",
    "__MACOSX/._x": b"junk",
    ".DS_Store": b"junk",
}


@pytest.mark.parametrize("top", ["", "bundle/", "a/b/"])
def test_a_zipped_bundle(store: Store, tmp_path: Path, top: str) -> None:
    seen = Recorder()
    model = import_path(REF, pack(tmp_path, BUNDLE, top), store, progress=seen)
    assert (model.format, model.precisions) == ("qairt", ("W8A16",))
    assert names(store) == {"metadata.json", "genie_config.json", "part_1_of_1.bin"}
    assert (store.folder(REF) / "part_1_of_1.bin").read_bytes() == b"weights"
    assert seen.bytes == sum(len(BUNDLE[name]) for name in names(store))


def test_zipped_ggufs_keep_their_folders(store: Store, tmp_path: Path) -> None:
    files = {"Q4_0/m.gguf": small(), "Q8_0/m.gguf": small(), "README.md": b"x"}
    model = import_path(REF, pack(tmp_path, files, "top/"), store)
    assert model.precisions == ("Q4_0", "Q8_0")
    assert names(store) == {"Q4_0/m.gguf", "Q8_0/m.gguf"}


@pytest.mark.parametrize("mode", ["link", "in_place"])
def test_a_zip_can_only_be_copied(store: Store, tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(UsageError, match="unpacked"):
        import_path(REF, pack(tmp_path, BUNDLE), store, mode)


@pytest.mark.parametrize(
    ("names_in", "stored"),
    [
        pytest.param(["./m.gguf"], {"m.gguf"}, id="dot slash"),
        pytest.param(["./a/./m.gguf", "a//n-Q8_0.gguf"], {"m.gguf", "n-Q8_0.gguf"}, id="dots"),
        pytest.param(["con.gguf"], {"_con.gguf"}, id="device"),
        pytest.param(["m|n.gguf", "docs/why?.md"], {"m_n.gguf"}, id="odd characters"),
        pytest.param(["geniex.json", "m.gguf"], {"m.gguf"}, id="manifest of its own"),
        pytest.param([".inflight/x.gguf", "m.gguf"], {"m.gguf"}, id="unfinished files"),
    ],
)
def test_names_in_a_zip(
    store: Store, tmp_path: Path, names_in: list[str], stored: set[str]
) -> None:
    model = import_path(REF, pack(tmp_path, dict.fromkeys(names_in, small())), store)
    assert model.status == "ready"
    assert names(store) == stored


ODD_NAMES = {
    "a:Q8_0.gguf": "a_Q8_0.gguf",
    "two\nlines-Q8_0.gguf": "two_lines-Q8_0.gguf",
    "con.Q8_0.gguf": "_con.Q8_0.gguf",
    "not-\udcff-utf8-Q8_0.gguf": "not-_-utf8-Q8_0.gguf",
    " m%41-Q8_0.gguf": "_m_41-Q8_0.gguf",
}


@pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
@pytest.mark.parametrize(("name", "stored"), ODD_NAMES.items(), ids=ascii)
def test_odd_names_are_stored_as_safe_ones(
    store: Store, tmp_path: Path, name: str, stored: str, mode: Mode
) -> None:
    folder = write(tmp_path / "src", {name: small()})
    for path in (folder / name, folder):
        if mode == "in_place" and "\udcff" in name:
            with pytest.raises(UsageError, match="not UTF-8"):
                import_path(REF, path, store, mode)
            assert untouched(store)
            continue
        model = import_path(REF, path, store, mode)
        assert (model.status, model.precisions) == ("ready", ("Q8_0",))
        assert [record.name for record in model.records("Q8_0")] == [stored]
        assert isinstance(resolve("local/mine:Q8_0", store), ResolvedModel)
        store.remove(REF)
        assert (folder / name).exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
def test_two_files_that_would_get_one_name(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"m?.gguf": small(), "m*.gguf": small()})
    with pytest.raises(UsageError, match=r"would both be stored as `m_\.gguf`"):
        import_path(REF, folder, store)
    assert untouched(store)


@pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
def test_the_files_of_a_bundle_keep_their_names(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"metadata.json": b"{}", "a:b.bin": b"x"})
    with pytest.raises(UsageError, match=r"a:b\.bin.*not every file system takes"):
        import_path(REF, folder, store)
    assert untouched(store)


def entry(name: str, mode: int = 0, flags: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.flag_bits |= flags
    return info


def spoiled(folder: Path, *extra: tuple[zipfile.ZipInfo, bytes]) -> Path:
    path = pack(folder, {name: BUNDLE[name] for name in list(BUNDLE)[:3]})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for info, data in extra:
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def encrypted(folder: Path) -> Path:
    """A zip whose entries say that they are encrypted."""
    path = pack(folder, BUNDLE)
    data = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := data.find(magic, start + 1)) >= 0:
            data[start + at] |= 1
    path.write_bytes(data)
    return path


def flipped(folder: Path) -> Path:
    """A zip whose content does not have its checksum."""
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in BUNDLE.items():
            archive.writestr(name, data)
    data = path.read_bytes().replace(b"weights", b"weightz", 1)
    path.write_bytes(data)
    return path


def cut(folder: Path) -> Path:
    path = pack(folder, BUNDLE)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def bomb(folder: Path) -> Path:
    path = pack(folder, {"metadata.json": b"{}"})
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.bin", "w") as out,
    ):
        for _ in range(300):
            out.write(bytes(1 << 20))
    return path


BAD_ZIPS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "leads out": (lambda f: spoiled(f, (entry("../../evil.bin"), b"x")), "leads out"),
    "absolute": (lambda f: spoiled(f, (entry("/evil.bin"), b"x")), "leads out"),
    "drive": (lambda f: spoiled(f, (entry("C:/evil.bin"), b"x")), "leads out"),
    "backslashes": (lambda f: spoiled(f, (entry("..\\evil.bin"), b"x")), "leads out"),
    "folder that leads out": (lambda f: spoiled(f, (entry("../evil/"), b"")), "leads out"),
    "link": (lambda f: spoiled(f, (entry("l.bin", stat.S_IFLNK | 0o777), b"/etc/passwd")), "link"),
    "device": (lambda f: spoiled(f, (entry("d.bin", stat.S_IFCHR | 0o777), b"")), "device"),
    "same base name": (
        lambda f: spoiled(f, (entry("other/part_1_of_1.bin"), b"x")),
        "same name",
    ),
    "same name in another case": (
        lambda f: spoiled(f, (entry("METADATA.json"), b"x")),
        "differs only in case from `metadata.json`",
    ),
    "model of another case": (
        lambda f: pack(f, {"m.gguf": small(), "M.gguf": small()}),
        "differs only in case from `m.gguf`",
    ),
    "two that would get one name": (
        lambda f: pack(f, {"m?.gguf": small(), "m*.gguf": small()}),
        "same name as another, `m_.gguf`",
    ),
    "a device among a bundle": (
        lambda f: spoiled(f, (entry("con.bin"), b"x")),
        "not every file system takes",
    ),
    "long": (lambda f: pack(f, {"m" * 300 + ".gguf": small()}), "longer than 255 bytes"),
    "encrypted": (encrypted, "encrypted"),
    "bad checksum": (flipped, "damaged"),
    "cut": (cut, "not a usable zip"),
    "bomb": (bomb, "unpack to"),
}


@pytest.mark.parametrize(("make", "reason"), BAD_ZIPS.values(), ids=BAD_ZIPS)
def test_bad_zips_are_refused(
    store: Store, tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    path = make(tmp_path)
    before = {p for p in tmp_path.rglob("*") if not p.is_relative_to(store.root)}
    with pytest.raises(ModelFileError) as caught:
        import_path(REF, path, store)
    assert reason in caught.value.message
    assert str(path) in caught.value.message
    assert {p for p in tmp_path.rglob("*") if not p.is_relative_to(store.root)} == before
    assert untouched(store)
