"""The ledger of a part: which version its bytes are of, and which runs of them are here.

A text file beside the part. Its first line is a JSON object: `format`, `etag`, `sha256`, `size`.
Each further line is a run of bytes `[first, length]`, where a later line of the same `first`
replaces an earlier one, or `[position, "sha256"]`, the hash of all bytes before a position. A line
is added only after its bytes were written: whenever the process is killed, what the ledger claims
is there; and what a power cut has lost is found by the hashes.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from geniex_catalogue.regular import read_regular

FORMAT = 2
# the length of a cell: no block reaches over the border of one, and at each border a hash is noted
CELL = 4 << 20
_MAX_BYTES = 256 << 20
# with more bytes than this, most lines are outdated
_SLACK = 8 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """What tells the bytes of one version of a file from those of another."""

    etag: str | None
    sha256: str | None
    size: int | None


@dataclass(slots=True)
class Block:
    """A run of bytes that is here, within one cell of `CELL` bytes.

    `doubtful`: the first to be fetched again when the hash of the whole is wrong. `noted` is the
    length that the ledger has.
    """

    first: int
    length: int = 0
    doubtful: bool = False
    noted: int = 0

    @property
    def end(self) -> int:
        """The byte after the last."""
        return self.first + self.length


@dataclass(slots=True)
class Entries:
    """What a ledger holds; `sums` are hashes of all bytes before a position."""

    version: Version
    blocks: list[Block] = field(default_factory=list)
    sums: dict[int, str] = field(default_factory=dict)


class Ledger:
    """The file of one part. All methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0

    def read(self, length: int) -> Entries | None:
        """The entries for a part of `length` bytes; None where they cannot be told."""
        try:
            lines = read_regular(self.path, _MAX_BYTES).splitlines()
            head = json.loads(lines[0])
            version = Version(head["etag"], head["sha256"], head["size"])
            if "format" not in head:
                # an older geniex let parts grow at their end alone
                return Entries(version, list(_cells(0, length)))
            if head["format"] != FORMAT:
                return None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        entries = Entries(version)
        found: dict[int, Block] = {}
        for line in lines[1:]:
            match _parsed(line):
                case [int(first), int(count)] if first >= 0 and count > 0:
                    found[first] = Block(first, count, doubtful=True, noted=count)
                case [int(position), str(digest)]:
                    entries.sums[position] = digest
        entries.blocks = list(_disjoint(found.values(), length))
        return entries

    def clear(self) -> None:
        """Forget all: from here on the part's bytes are nobody's."""
        self.path.write_bytes(b"")
        self._bytes = 0

    def rewrite(self, entries: Entries) -> None:
        """Write the ledger as a whole; whoever reads it meets the old one or the new one."""
        version = entries.version
        head = {"format": FORMAT, "etag": version.etag, "sha256": version.sha256}
        lines = [_line({**head, "size": version.size})]
        lines += map(_record, entries.blocks)
        lines += (_line([position, digest]) for position, digest in entries.sums.items())
        data = b"".join(lines)
        # the name is short: a file's own may be as long as names can be
        temporary = self.path.with_name(f".{os.urandom(6).hex()}.tmp")
        try:
            temporary.write_bytes(data)
            temporary.replace(self.path)
        except BaseException:
            # the first error is the one to tell
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        self._bytes = len(data)
        for block in entries.blocks:
            block.noted = block.length

    def note(self, blocks: list[Block], sums: Mapping[int, str]) -> bool:
        """Add what has grown; whether the ledger has become long and should be rewritten."""
        data = b"".join(map(_record, blocks))
        data += b"".join(_line([position, digest]) for position, digest in sums.items())
        if data:
            with self.path.open("ab", buffering=0) as file:
                if file.write(data) != len(data):
                    # a line without its end would spoil the next one
                    file.write(b"\n")
                    return False
            self._bytes += len(data)
            for block in blocks:
                block.noted = block.length
        return self._bytes > _SLACK


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _record(block: Block) -> bytes:
    return _line([block.first, block.length])


def _parsed(line: bytes) -> object:
    """A line's value, None if it has none: the last one may be half written."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _cells(first: int, end: int) -> Iterator[Block]:
    """A run of bytes as one block a cell."""
    while first < end:
        length = min(end - first, CELL - first % CELL)
        yield Block(first, length, doubtful=True)
        first += length


def _disjoint(blocks: Iterable[Block], length: int) -> Iterator[Block]:
    """The blocks that lie within the part, in order, none over another or over two cells."""
    end = 0
    for block in sorted(blocks, key=lambda block: block.first):
        if block.first >= end and block.end <= length:
            end = block.end
            if block.length <= CELL - block.first % CELL:
                yield block
