"""The last step of what was fetched out of an archive: its checksum, and its compression."""

import hashlib
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from geniex_catalogue.durable import FULL
from geniex_catalogue.errors import ChecksumError, DiskSpaceError, GenieXError, StoreError
from geniex_catalogue.hubs.contract import Packing
from geniex_catalogue.hubs.part import facts_path

# what is added to a part's name for its content
ENDING = ".unpacked"
_BLOCK = 1 << 20


def unpacked(part: Path, packing: Packing, name: str, sha256: str) -> tuple[Path, str]:
    """The file that a part holds, and its sha256; `sha256` is that of the part.

    What was stored as it is stays where it is, what was deflated gets a file beside. A part whose
    content is not what the archive states is deleted. Raises ChecksumError, DiskSpaceError,
    StoreError.
    """
    try:
        if not packing.deflated:
            _check(packing, *_sums(_blocks(part)), name)
            return part, sha256
        return _inflated(part, packing, name)
    except ChecksumError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
            facts_path(part).unlink(missing_ok=True)
        raise
    except OSError as exc:
        raise _failure(part, packing, exc) from exc


def _inflated(part: Path, packing: Packing, name: str) -> tuple[Path, str]:
    target = part.with_name(part.name + ENDING)
    digest = hashlib.sha256()
    size, crc = 0, 0
    try:
        with target.open("wb") as out:
            for block in _inflate(_blocks(part), packing.size, name):
                out.write(block)
                digest.update(block)
                size, crc = size + len(block), zlib.crc32(block, crc)
        _check(packing, size, crc, name)
    except BaseException:
        # the first error is the one to tell
        with suppress(OSError):
            target.unlink(missing_ok=True)
        raise
    return target, digest.hexdigest()


def _inflate(blocks: Iterator[bytes], size: int, name: str) -> Iterator[bytes]:
    """The content of a raw deflate stream, never more than a block beyond `size` bytes."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    given = 0
    try:
        for packed in blocks:
            while packed and given <= size:
                content = stream.decompress(packed, _BLOCK)
                packed = stream.unconsumed_tail
                given += len(content)
                yield content
        if given <= size:
            yield stream.flush()
    except zlib.error as exc:
        raise _wrong(name, f"it cannot be unpacked ({exc})") from exc


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _sums(blocks: Iterator[bytes]) -> tuple[int, int]:
    size, crc = 0, 0
    for block in blocks:
        size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc


def _check(packing: Packing, size: int, crc: int, name: str) -> None:
    if size != packing.size:
        raise _wrong(name, f"it has {size} bytes, its archive states {packing.size}")
    if crc != packing.crc32:
        raise _wrong(name, f"its CRC-32 is {crc:08x}, its archive states {packing.crc32:08x}")


def _wrong(name: str, reason: str) -> ChecksumError:
    return ChecksumError(
        f"`{name}` arrived wrong: {reason}",
        hint="run the same command again; if it stays so, the hub or a proxy is at fault",
    )


def _failure(part: Path, packing: Packing, exc: OSError) -> GenieXError:
    folder = part.parent
    if exc.errno in FULL:
        return DiskSpaceError(str(folder), packing.size, shutil.disk_usage(folder).free)
    return StoreError(f"`{part}` cannot be unpacked: {exc.strerror or exc}")
