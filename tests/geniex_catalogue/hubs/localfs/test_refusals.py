"""Refusals: before a byte is written, with the file and the reason."""

from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    GenieXError,
    GGUFError,
    IncompleteShardsError,
    LoadError,
    ModelNotFoundError,
    ModelPathError,
    UsageError,
)
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, untouched
from tests.geniex_catalogue.hubs.localfs.sources import pack, write
from tests.ggufwriter import build, entry, small

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
                [entry("split.no", 1, "u16"), entry("split.count", 2, "u16")]
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
