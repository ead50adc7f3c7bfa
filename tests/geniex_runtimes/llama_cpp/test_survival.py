"""The record of outcomes: the newest are kept, and no write loses another's."""

import errno
import os
from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp.survival import Outcome, Record


def test_the_newest_are_kept(tmp_path: Path) -> None:
    record = Record(tmp_path / "sub" / "record.json", "pairs", 3)
    for number in range(5):
        assert record.add(f"key {number}", Outcome(True, None, number)) is None
    assert record.add("key 3", Outcome(False, "died", 9.5)) is None
    assert record.read() == {
        "key 3": Outcome(False, "died", 9.5),
        "key 4": Outcome(True, None, 4),
        "key 2": Outcome(True, None, 2),
    }
    assert [path.name for path in record.path.parent.iterdir()] == ["record.json"]


def test_two_records_of_one_file(tmp_path: Path) -> None:
    records = [Record(tmp_path / "record.json", "pairs", 8) for _ in range(2)]
    for name, record in zip("ab", records, strict=True):
        record.add(name, Outcome(True))
    assert set(records[0].read()) == {"a", "b"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pairs": 1}', '{"pairs": {"x": {}}}', "\x00"])
def test_a_damaged_record_is_empty(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = Record(tmp_path / "record.json", "pairs", 8)
    record.path.write_text(text)
    assert record.read() == {}
    assert "is not readable, testing again" in caplog.text
    record.add("a", Outcome(True))
    assert record.read() == {"a": Outcome(True)}


def test_a_full_disk_leaves_the_record_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(tmp_path / "record.json", "pairs", 8)
    record.add("a", Outcome(True))

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in (record.add("b", Outcome(True)) or "")
    assert record.read() == {"a": Outcome(True)}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["record.json"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among files")
def test_a_pipe_for_a_record_makes_nobody_wait(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.json", "pairs", 8)
    os.mkfifo(record.path)
    assert record.read() == {}
    record.add("a", Outcome(True))
    assert record.read() == {"a": Outcome(True)}
