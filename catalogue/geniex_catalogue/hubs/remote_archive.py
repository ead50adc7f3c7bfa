"""A zip on a hub: its directory read by ranges, and where in it each file's bytes lie."""

import io
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from geniex_catalogue.bundle_files import BUNDLE_FACTS
from geniex_catalogue.errors import ModelFileError
from geniex_catalogue.folder import BundleFacts, parse_facts
from geniex_catalogue.hubs.archive import Archive
from geniex_catalogue.hubs.contract import Item, Packing, Source
from geniex_catalogue.hubs.remote import RemoteFile
from geniex_catalogue.hubs.retelling import Retelling
from geniex_catalogue.hubs.web import Patience, client
from geniex_catalogue.hubs.worker import Abandon, interruptible

_BLOCK = 1 << 16
_BLOCKS_KEPT = 16
_MAX_FACTS = 16 << 20
# signature, versions, flags, method, time, date, CRC, sizes, lengths of name and extra field
_LOCAL = struct.Struct("<4s5H3I2H")
_SIGNATURE = b"PK\x03\x04"
_METHODS = {zipfile.ZIP_STORED: False, zipfile.ZIP_DEFLATED: True}


class RangedFile(io.RawIOBase):
    """A remote file as Python's own kind of file: read only, in blocks, a few of which it keeps."""

    def __init__(self, remote: RemoteFile) -> None:
        super().__init__()
        self._remote = remote
        self._blocks: dict[int, bytes] = {}
        self._position = 0
        self._block(0)
        if remote.size is None:
            raise ModelFileError("the hub does not say how large an archive is")
        self.size = remote.size

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where the next byte comes from."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place. Raises ValueError for one before the beginning."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError("before the beginning of the file")
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer only at the end. Raises HubError, TransferError."""
        end = self.size if size < 0 else min(self.size, self._position + size)
        data = bytearray()
        while self._position < end:
            number, inner = divmod(self._position, _BLOCK)
            piece = self._block(number)[inner : inner + end - self._position]
            if not piece:
                raise ModelFileError("an archive ends before the end that its hub states")
            data += piece
            self._position += len(piece)
        return bytes(data)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            while len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number] = self._remote.read(number * _BLOCK, _BLOCK)
        return self._blocks[number]


def look_into(
    source: Source, name: str, patience: Patience | None = None
) -> tuple[tuple[Item, ...], BundleFacts]:
    """The files of a bundle in a zip on a hub, the first `.bin` first, and its facts.

    Nothing but the directory and the facts is read. Raises ModelFileError for a zip that is
    damaged, dangerous or holds no bundle, HubError and TransferError for one that cannot be read.
    """
    patience = patience or Patience()

    retelling = Retelling(name)

    def work(abandon: Abandon) -> tuple[tuple[Item, ...], BundleFacts]:
        with client(patience) as http:
            file = RangedFile(
                RemoteFile(http, name, source, abandon, patience, note=retelling.note)
            )
            with Archive(Path(name), cast(BinaryIO, file), file.size) as archive:
                return look_at(archive, file, source)

    return interruptible(work, retelling)


def look_at(
    archive: Archive, file: RangedFile, source: Source
) -> tuple[tuple[Item, ...], BundleFacts]:
    """The files and facts of an open archive, whose bytes are at `source`; see `look_into`."""
    if not archive.is_bundle or not any(name.endswith(".bin") for name in archive.members):
        raise ModelFileError(
            f"`{archive.path}` is refused: it holds no bundle (metadata.json and .bin files)"
        )
    facts = BundleFacts()
    if BUNDLE_FACTS in archive.members:
        facts = parse_facts(archive.read(BUNDLE_FACTS, _MAX_FACTS))
    items = [
        _item(archive, file, source, name)
        for name in sorted(archive.members)
        if archive.members[name].file_size
    ]
    items.sort(key=lambda item: not item.name.endswith(".bin"))
    return tuple(items), facts


def _item(archive: Archive, file: RangedFile, source: Source, name: str) -> Item:
    """A file of the archive, as a window of the archive's bytes."""
    member = archive.members[name]
    if member.compress_type not in _METHODS:
        raise ModelFileError(
            f"`{archive.path}` is refused: `{name}` is compressed in a way that is not known here"
        )
    deflated = _METHODS[member.compress_type]
    # a directory that contradicts itself may point to before the beginning
    file.seek(max(0, member.header_offset))
    head = file.read(_LOCAL.size) if member.header_offset >= 0 else b""
    if len(head) < _LOCAL.size or not head.startswith(_SIGNATURE):
        raise ModelFileError(f"`{archive.path}` is damaged: `{name}` is not where it should be")
    fields = _LOCAL.unpack(head)
    first = member.header_offset + _LOCAL.size + fields[9] + fields[10]
    if fields[3] != member.compress_type or first + member.compress_size > file.size:
        raise ModelFileError(f"`{archive.path}` is damaged: `{name}` is not what its list says")
    if not deflated and member.compress_size != member.file_size:
        raise ModelFileError(f"`{archive.path}` is damaged: the sizes of `{name}` contradict")
    window = replace(source, first=first, length=member.compress_size)
    packing = Packing(member.file_size, member.CRC, deflated)
    return Item(name, window, member.compress_size, packing=packing)
