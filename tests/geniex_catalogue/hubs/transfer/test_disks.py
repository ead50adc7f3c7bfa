"""Disks: full at any byte, read-only, another device. What has arrived is gone on from."""

import subprocess
from pathlib import Path

import pytest

from geniex_catalogue.errors import DiskSpaceError, StoreError
from geniex_catalogue.hubs.part import arrived
from tests.geniex_catalogue.conftest import ROOM
from tests.geniex_catalogue.hubs.transfer.download import DATA, SHA256, run
from tests.hubserver import HubServer

PAGE = 4096


LAST = len(DATA) // PAGE * PAGE


def asked_for(hub: HubServer) -> int:
    """Bytes of the file that were asked for."""
    total = 0
    for seen in hub.requests("cdn"):
        first, _, last = seen.headers.get("range", f"bytes=0-{len(DATA) - 1}")[6:].partition("-")
        total += int(last) - int(first) + 1
    return total


@pytest.mark.parametrize(
    ("room", "span"),
    [
        *((room, len(DATA)) for room in (0, PAGE, 65_536, 2_000_000, LAST)),
        *((room, 300_000) for room in (2 * PAGE, 1_000_000, LAST)),
    ],
)
def test_full_at_any_byte(repo: HubServer, small_disk: Path, room: int, span: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(ROOM - room))
    with pytest.raises(DiskSpaceError) as caught:
        run(repo, small_disk / "model", span=span)
    assert 0 < caught.value.needed <= len(DATA)
    assert caught.value.free < caught.value.needed + 2 * PAGE
    part = small_disk / "model" / "m.gguf.partial"
    here = arrived(part)
    # a span that was broken off is gone on from too; the ledger wants its page
    assert here >= room - 1_200_000 if span < len(DATA) else here >= room - 4 * PAGE - 65_536
    ballast.unlink()
    repo.seen.clear()
    assert run(repo, small_disk / "model", span=span).path.read_bytes() == DATA
    assert asked_for(repo) == len(DATA) - here


def test_a_folder_that_cannot_be_written(repo: HubServer, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError, match="cannot be written"):
        run(repo, small_disk / "model")
    assert not repo.seen


def test_a_part_on_another_device(repo: HubServer, small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "m.gguf.partial").symlink_to(small_disk / "elsewhere")
    (small_disk / "elsewhere").touch()
    assert run(repo, tmp_path).sha256 == SHA256
    assert (small_disk / "elsewhere").read_bytes() == DATA
