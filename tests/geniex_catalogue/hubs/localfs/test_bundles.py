"""Compiled bundles: a folder is one model."""

import json
import os
from pathlib import Path

import pytest

from geniex_catalogue.errors import BundleError, UsageError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, names, untouched
from tests.geniex_catalogue.hubs.localfs.sources import BUNDLE, pack, write


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


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among files")
def test_a_pipe_among_a_bundle_makes_nobody_wait(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"genie_config.json": b"{}", "a.bin": b"1"})
    os.mkfifo(folder / "metadata.json")
    assert import_path(REF, folder, store).format == "qairt"
    assert names(store) == {"genie_config.json", "a.bin"}


@pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
def test_the_files_of_a_bundle_keep_their_names(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"metadata.json": b"{}", "a:b.bin": b"x"})
    with pytest.raises(UsageError, match=r"a:b\.bin.*not every file system takes"):
        import_path(REF, folder, store)
    assert untouched(store)


@pytest.mark.parametrize("zipped", [False, True], ids=["folder", "zip"])
def test_a_bundle_without_its_binaries_is_told_as_one(
    store: Store, tmp_path: Path, zipped: bool
) -> None:
    files = {name: data for name, data in BUNDLE.items() if not name.endswith(".bin")}
    source = pack(tmp_path, files) if zipped else write(tmp_path / "src", files)
    with pytest.raises(BundleError, match="without its context binaries") as caught:
        import_path(REF, source, store)
    assert str(source) in caught.value.message
    assert untouched(store)
