"""Archives with any byte changed: read as a bundle, or refused; never anything else."""

import io
import zipfile
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from geniex_catalogue.errors import GenieXError
from geniex_catalogue.hubs.archive import Archive
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.remote import RemoteFile
from geniex_catalogue.hubs.remote_archive import RangedFile, look_at
from tests.aihub import METADATA, zipped

SMALL = zipped({"metadata.json": METADATA, "tokenizer.json": b"{}" * 40, "a_1_of_1.bin": b"x" * 99})
# where the directory of entries begins: the bytes that say what is where
DIRECTORY = SMALL.index(b"PK\x01\x02")


class InMemory:
    """What reads a remote file, of bytes that are here."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def look(data: bytes) -> list[tuple[str, int, int]]:
    file = RangedFile(cast(RemoteFile, InMemory(data)))
    with Archive(Path("b.zip"), cast(Any, file), file.size) as archive:
        items, _ = look_at(archive, file, Source("http://x/b.zip"))
    return [(item.name, item.source.first, item.source.length or 0) for item in items]


def test_the_windows_are_where_the_bytes_are() -> None:
    with zipfile.ZipFile(io.BytesIO(SMALL)) as known:
        for name, first, length in look(SMALL):
            member = known.getinfo(f"b/{name}")
            assert length == member.compress_size
            if member.compress_type == zipfile.ZIP_STORED:
                assert SMALL[first : first + length] == known.read(member)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.integers(DIRECTORY, len(SMALL) - 1), st.integers(0, 255)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 40),
)
def test_any_change_is_read_or_refused(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(SMALL)
    for place, value in changes:
        data[place] = value
    data = data[: len(data) - cut] if cut > 30 else data
    try:
        found = look(bytes(data))
    except GenieXError:
        return
    for name, first, length in found:
        assert "/" not in name
        assert 0 <= first <= first + length <= len(data)
