"""The ledger: whatever becomes of its end, it claims nothing that is not there."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.hubs.ledger import CELL, Block, Entries, Ledger, Version

VERSION = Version('"tag"', "0" * 64, 5 * CELL)
BLOCKS = [Block(0, CELL), Block(CELL, 700), Block(2 * CELL + 5, 90), Block(4 * CELL, CELL)]
SUMS = {CELL: "a" * 64}


def written(path: Path) -> bytes:
    """The bytes of a ledger, of which the second block has grown since it was begun."""
    ledger = Ledger(path)
    ledger.rewrite(Entries(VERSION, BLOCKS, SUMS))
    ledger.note([Block(CELL, 900)], {2 * CELL: "b" * 64})
    return path.read_bytes()


def spans(entries: Entries | None) -> list[tuple[int, int]]:
    return [(it.first, it.length) for it in entries.blocks] if entries else []


def test_what_was_noted_is_there(tmp_path: Path) -> None:
    written(tmp_path / "l")
    entries = Ledger(tmp_path / "l").read(5 * CELL)
    assert entries is not None
    assert entries.version == VERSION
    assert spans(entries) == [
        (0, CELL),
        (CELL, 900),
        (2 * CELL + 5, 90),
        (4 * CELL, CELL),
    ]
    assert entries.sums == {**SUMS, 2 * CELL: "b" * 64}


def test_no_block_reaches_over_the_end_of_the_part(tmp_path: Path) -> None:
    written(tmp_path / "l")
    assert spans(Ledger(tmp_path / "l").read(4 * CELL + 9)) == [
        (0, CELL),
        (CELL, 900),
        (2 * CELL + 5, 90),
    ]


@given(cut=st.integers(0, 400), nul=st.integers(0, 40))
def test_a_spoilt_end_claims_nothing_new(cut: int, nul: int) -> None:
    """Cut off anywhere, or, as after a power cut, with zeros at its end."""
    with TemporaryDirectory() as name:
        path = Path(name) / "l"
        path.write_bytes(written(path)[:cut] + bytes(nul))
        found = Ledger(path).read(5 * CELL)
    true = {(it.first, it.length) for it in [*BLOCKS, Block(CELL, 900)]}
    assert set(spans(found)) <= true


@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_anything_can_be_read(data: bytes) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "l"
        path.write_bytes(data)
        assert spans(Ledger(path).read(CELL)) == []


@given(
    lines=st.lists(
        st.lists(
            st.none() | st.booleans() | st.integers(-9, 6 * CELL) | st.text(max_size=3),
            max_size=3,
        ).map(str),
        max_size=9,
    )
)
def test_blocks_never_overlap(lines: list[str]) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "l"
        path.write_bytes(written(path) + "\n".join(lines).replace("'", '"').encode())
        found = spans(Ledger(path).read(5 * CELL))
    end = 0
    for first, length in found:
        assert end <= first < first + length <= 5 * CELL
        assert first // CELL == (first + length - 1) // CELL
        end = first + length
