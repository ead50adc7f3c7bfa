"""Shards: any one means the set, and a set that is none is refused."""

import json
import os
from pathlib import Path

import pytest

from geniex_catalogue.errors import GGUFError, IncompleteShardsError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.resolver.files import found, shards, write
from tests.ggufwriter import small


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


def test_a_damaged_shard_is_named_as_damaged(tmp_path: Path, store: Store) -> None:
    paths = shards(tmp_path / "s", "m", 2)
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    for text in (str(tmp_path / "s"), str(paths[0])):
        with pytest.raises(GGUFError, match="the file ends after"):
            resolve(text, store)


def test_a_set_that_its_manifest_cuts_short(store: Store, tmp_path: Path) -> None:
    ref = ModelRef("org", "repo")
    import_path(ref, shards(tmp_path / "s", "m-Q4_0", 2)[0], store)
    path = store.folder(ref) / "geniex.json"
    document = json.loads(path.read_text())
    document["ExtraFiles"] = []
    path.write_text(json.dumps(document))
    with pytest.raises(IncompleteShardsError):
        resolve("org/repo", store)


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
