"""The first bytes of a context binary: its true size, and whether its graphs share weights.

Known for the form that QAIRT 2.4x and 2.5x write, by looking at its files: four big-endian words,
then the little-endian sizes of the description, of all before the blob, and of the blob; the blob
begins with a table of named records, of which `WEIGHTS/0` is the one that graphs share.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

_FORM = bytes.fromhex("00000002")
_SIZES = struct.Struct("<16x3Q")
_TABLE = struct.Struct("<16x2Q")
_MAX_HEAD = 256 << 20
_MAX_TABLE = 1 << 20
_SHARED = b"WEIGHTS/"


@dataclass(frozen=True, slots=True)
class ContextHeader:
    """What a context binary says of itself: bytes it has to have, bytes it has."""

    stated_size: int
    size: int
    shares_weights: bool

    @property
    def truncated(self) -> bool:
        """Whether the end of it is missing."""
        return self.size < self.stated_size


def read_context_header(path: Path) -> ContextHeader | None:
    """The header of a context binary; None for a form that is not known. Raises OSError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_SIZES.size)
        if len(head) < _SIZES.size or not head.startswith(_FORM):
            return None
        described, start, blob = _SIZES.unpack(head)
        if not described <= start <= _MAX_HEAD or not blob:
            return None
        file.seek(start)
        table = file.read(_TABLE.size)
        names = b""
        if len(table) == _TABLE.size:
            names = file.read(min(_TABLE.unpack(table)[1], _MAX_TABLE))
    return ContextHeader(start + blob, size, _SHARED in names)
