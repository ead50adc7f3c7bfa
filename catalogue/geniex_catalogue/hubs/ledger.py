"""The ledger of a part: which version its bytes are of, and which runs of them are here.

A text file beside the part. Its first line is a JSON object: `format`, `etag`, `sha256`, `size`.
Each further line is a block `[first, length, crc32]`; a later line of the same `first` replaces an
earlier one. A line is added only after its bytes were written, so whenever the process is killed,
what the ledger claims is there; what a power cut has lost does not have the CRC that stands here.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue.regular import read_regular

FORMAT = 2
_MAX_BYTES = 256 << 20
# lines that are outdated are let be until there are so many bytes of them
_SLACK = 4 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """What tells the bytes of one version of a file from those of another."""

    etag: str | None
    sha256: str | None
    size: int | None


@dataclass(slots=True)
class Block:
    """A run of bytes that is here, with its CRC-32; None where an older geniex wrote none.

    `unread`: from an earlier process, and not read since. `doubtful`: the first to be fetched again
    when the hash of the whole is wrong. `noted` is the length that the ledger has.
    """

    first: int
    length: int = 0
    crc: int | None = 0
    unread: bool = False
    doubtful: bool = False
    noted: int = 0

    @property
    def end(self) -> int:
        """The byte after the last."""
        return self.first + self.length


class Ledger:
    """The file of one part. All methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0

    def read(self, length: int) -> tuple[Version | None, list[Block]]:
        """The version, None if it cannot be told, and the blocks of a part of `length` bytes."""
        try:
            lines = read_regular(self.path, _MAX_BYTES).splitlines()
            head = json.loads(lines[0])
            version = Version(head["etag"], head["sha256"], head["size"])
            if "format" not in head:
                # an older geniex let parts grow at their end alone
                return version, [Block(0, length, None, doubtful=True)] if length else []
            if head["format"] != FORMAT:
                return None, []
        except (OSError, ValueError, LookupError, TypeError):
            return None, []
        found = {block.first: block for block in map(_block, lines[1:]) if block is not None}
        return version, list(_disjoint(found.values(), length))

    def clear(self) -> None:
        """Forget all: from here on the part's bytes are nobody's."""
        self.path.write_bytes(b"")
        self._bytes = 0

    def rewrite(self, version: Version, blocks: Iterable[Block]) -> None:
        """Write the ledger as a whole; whoever reads it meets the old one or the new one."""
        head = {"format": FORMAT, "etag": version.etag, "sha256": version.sha256}
        kept = list(blocks)
        data = _line({**head, "size": version.size}) + b"".join(map(_record, kept))
        # the name is short: a file's own may be as long as names can be
        temporary = self.path.with_name(f".{os.urandom(6).hex()}.tmp")
        try:
            temporary.write_bytes(data)
            temporary.replace(self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._bytes = len(data)
        for block in kept:
            block.noted = block.length

    def note(self, blocks: Iterable[Block]) -> bool:
        """Add what has grown; whether the ledger has become long and should be rewritten."""
        grown = list(blocks)
        data = b"".join(map(_record, grown))
        if data:
            with self.path.open("ab", buffering=0) as file:
                written = file.write(data)
                if written != len(data):
                    # a line without its end would spoil the next one
                    file.write(b"\n")
                    return False
            self._bytes += len(data)
            for block in grown:
                block.noted = block.length
        return self._bytes > _SLACK


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _record(block: Block) -> bytes:
    return _line([block.first, block.length, block.crc])


def _block(line: bytes) -> Block | None:
    """A line as a block, None if it is none: the last one may be half written."""
    try:
        first, length, crc = json.loads(line)
    except (ValueError, TypeError):
        return None
    if not (_is_count(first) and _is_count(length) and length and (crc is None or _is_count(crc))):
        return None
    return Block(first, length, crc, unread=crc is not None, doubtful=True, noted=length)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _disjoint(blocks: Iterable[Block], length: int) -> Iterator[Block]:
    """The blocks that lie within the part, in order, none over another."""
    end = 0
    for block in sorted(blocks, key=lambda block: block.first):
        if block.first >= end and block.end <= length:
            end = block.end
            yield block
