"""Weights that are read instead of mapped, and huge pages for them."""

import mmap
import shutil
import sys
from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp import huge_pages
from geniex_runtimes.llama_cpp.huge_pages import FreshMemory
from geniex_runtimes.options import ComputeUnit, LoadOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, turn

ASKED = turn("What is the capital of France?")
SIZE = 64 << 20


def test_the_same_answer_from_a_file_and_from_memory(tiny_chat: Path, tmp_path: Path) -> None:
    own = Path(shutil.copy(tiny_chat, tmp_path))  # another test may have the other one mapped
    texts = set()
    for mapped in (True, False):
        with load(own, mmap=mapped) as model:
            texts.add(answer(model, ASKED).text)
            maps = Path("/proc/self/maps")
            if maps.exists():
                assert (str(own) in maps.read_text()) is mapped
    assert len(texts) == 1


def test_the_weights_are_not_shared_with_who_maps_them(tiny_chat: Path) -> None:
    with load(tiny_chat) as one, load(tiny_chat, mmap=False) as other, load(tiny_chat) as third:
        assert one._weights is third._weights and one._weights is not other._weights


@pytest.mark.skipif(not huge_pages.available(), reason="this system has no huge pages")
def test_new_areas_are_found_and_nothing_else() -> None:
    old = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    fresh = FreshMemory()
    assert fresh.ask() == 0
    new = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    asked = fresh.ask()
    # the kernel may have made one area of both
    assert SIZE <= asked <= 2 * SIZE + (16 << 20)
    # the mark of areas that the kernel is to give huge pages to
    flags = [
        line for line in Path("/proc/self/smaps").read_text().splitlines() if "VmFlags" in line
    ]
    assert any(" hg" in line for line in flags)
    new.close()
    old.close()


@pytest.mark.parametrize("text", ["always madvise [never]\n", None], ids=["never", "no-such-file"])
def test_without_them_nothing_is_done(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = tmp_path / "enabled"
    if text is not None:
        enabled.write_text(text)
    monkeypatch.setattr(huge_pages, "_ENABLED", enabled)
    monkeypatch.setattr(huge_pages, "available", huge_pages.available.__wrapped__)
    assert not huge_pages.available()
    assert FreshMemory().ask() == 0


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert not huge_pages.available.__wrapped__()


@pytest.mark.parametrize(
    ("asked", "compute", "there", "expected"),
    [
        pytest.param(True, "cpu", True, True, id="asked-for"),
        pytest.param(False, "cpu", False, False, id="forbidden"),
        pytest.param(None, "cpu", True, False, id="open-and-huge-pages"),
        pytest.param(None, "cpu", False, True, id="open-and-none"),
        pytest.param(None, "gpu", True, True, id="open-on-a-gpu"),
    ],
)
def test_who_maps(
    asked: bool | None,
    compute: ComputeUnit,
    there: bool,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(huge_pages, "available", lambda: there)
    options = LoadOptions(mmap=asked, compute=compute)
    assert huge_pages.mapped(options) is expected
    assert huge_pages.mapped(options, room=False) is (asked is not False)
