"""The part of a file: who writes for a version that was dropped writes nothing."""

from pathlib import Path

import pytest

from geniex_catalogue.hubs.part import Part, StaleError, Writer, arrived


def test_bytes_of_a_version_that_was_dropped_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf.partial"
    with Part(path, sha256=None, size=100) as part:
        part.begin('"old"')
        with Writer(part, 0, epoch=part.epoch) as old:
            old.write(b"x" * 50)
            part.begin('"new"')
            with pytest.raises(StaleError):
                old.write(b"x" * 50)
        assert path.stat().st_size == 0
        with Writer(part, 10, epoch=part.epoch) as new:
            new.write(b"y" * 20)
        part.note(all_of_it=True)
        assert part.missing() == [(0, 10), (30, 100)]
    assert (arrived(path), path.stat().st_size) == (20, 30), "a length with a hole in it"
