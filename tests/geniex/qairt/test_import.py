"""A bundle comes into the store whole or not at all."""

import logging
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from geniex import model_manager
from geniex_catalogue.errors import BundleError
from tests.cliharness import Cli
from tests.geniex.qairt.faults import FAULTS

if TYPE_CHECKING:
    from tests.qairt_bundles import QairtBundles


def _without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _random_shard(folder: Path) -> None:
    next(folder.glob("*.bin")).write_bytes(random.Random(1).randbytes(4096))


# how a bundle is spoiled, the file that the error names, and what it says
DAMAGE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing shard": (FAULTS["missing"].spoil, "genie_config.json", "'not_there.bin', which is mi"),
    "truncated shard": (FAULTS["truncated"].spoil, "tiny_talk_part_1_of_1.bin", "is truncated"),
    "random shard": (_random_shard, "tiny_talk_part_1_of_1.bin", "is no context binary"),
    "corrupt metadata": (FAULTS["corrupt"].spoil, "metadata.json", "is not JSON"),
    "another NPU's settings": (
        FAULTS["foreign"].spoil,
        "tiny_talk_part_1_of_1.bin",
        "compiled for HTP v73",
    ),
    "no tokenizer": (_without("tokenizer.json"), "genie_config.json", "'tokenizer.json', which is"),
    "no configuration": (_without("genie_config.json"), "genie_config.json", "is missing"),
}


@pytest.mark.parametrize(("spoil", "file", "says"), DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("how", ["copy", "zip", "in_place"])
def test_a_damaged_bundle_is_refused(
    qairt_bundles: "QairtBundles",
    tmp_path: Path,
    how: str,
    spoil: Callable[[Path], object],
    file: str,
    says: str,
) -> None:
    source = tmp_path / "source"
    shutil.copytree(qairt_bundles.folder(), source)
    spoil(source)
    if how == "zip":
        folder, source = source, tmp_path / "source.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for path in folder.iterdir():
                archive.write(path, path.name)
    with pytest.raises(BundleError) as caught:
        model_manager.pull(
            "local/bad",
            local_path=source,
            how="in_place" if how == "in_place" else "copy",
            data_dir=tmp_path / "data",
        )
    assert caught.value.file == source / file
    assert says in caught.value.message
    assert str(caught.value.hint).startswith("nothing was stored")
    assert model_manager.list_detailed(data_dir=tmp_path / "data") == ()


def test_the_terminal_says_so(cli: Cli, qairt_bundles: "QairtBundles", tmp_path: Path) -> None:
    bad = FAULTS["truncated"].make(qairt_bundles, tmp_path)
    refused = cli("pull", "local/bad", "--local-path", str(bad))
    assert refused.code == 1 and "is truncated" in refused.err and refused.out == ""
    assert "local/bad" not in cli("list").out


def test_a_whole_bundle_for_elsewhere_is_stored_with_a_word(
    cli: Cli,
    qairt_bundles: "QairtBundles",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = qairt_bundles.folder(weight_sharing=True)
    stored = cli("pull", "local/shared", "--local-path", str(whole))
    assert stored.code == 0 and "local/shared" in cli("list").out
    says = f"stored, but it cannot run on this machine: `{whole}"
    assert says in stored.err and "share their weights" in stored.err
    # the terminal has quietened the one that is there
    heard = logging.Logger("heard")
    heard.addHandler(caplog.handler)
    monkeypatch.setattr(model_manager, "log", heard)
    model_manager.pull("local/shared", local_path=whole, data_dir=tmp_path)
    assert says in caplog.text
    fitting = cli("pull", "local/fits", "--local-path", str(qairt_bundles.folder()))
    assert fitting.code == 0 and "cannot run" not in fitting.err
