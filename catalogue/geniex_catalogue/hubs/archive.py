"""A zip of a model, looked through before anything of it is written."""

import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, Self

from geniex_catalogue.bundle_files import BUNDLE_CONFIG, BUNDLE_FACTS, are_bundle
from geniex_catalogue.errors import ModelFileError, ModelRefError
from geniex_catalogue.gguf import GGUFHeader, parse_header
from geniex_catalogue.manifest import RESERVED
from geniex_catalogue.names import check_file_name, storable

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_MAX_ENTRIES = 10_000
# of the list of entries, which is read whole: room for that many with long names
_MAX_LIST_BYTES = 32 << 20
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x06"
# the end of a zip: its record, the longest comment, and the two records of zip64 before it
_TAIL = 22 + 65535 + 20 + 56
# more than this many bytes, and this many times the archive, is no model but a trap
_SUSPECT_BYTES = 256 << 20
_SUSPECT_RATIO = 100
_BLOCK = 1 << 20


def is_archive(path: Path) -> bool:
    """Whether a file is a zip, by its first bytes or its name. Raises OSError."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) in _MAGIC or path.suffix.lower() == ".zip"


class Archive:
    """An open zip. `members` maps the names that its files get to their entries.

    A bundle's files are flattened to their base names; of GGUFs, a folder that is around all of
    them is taken off. Opening raises ModelFileError for a zip that is damaged, encrypted, or holds
    links, names that lead out, two files of one name, or absurd sizes.

    `source` is where its bytes come from, `size` of them, where they are not in a file at `path`.
    """

    def __init__(self, path: Path, source: BinaryIO | None = None, size: int | None = None) -> None:
        self.path = path
        try:
            self._size = path.stat().st_size if size is None else size
            self._check_list(source)
            self._zip = zipfile.ZipFile(path if source is None else source)
        except (*_DAMAGE, struct.error, OverflowError) as exc:
            raise ModelFileError(
                f"`{path}` is not a usable zip archive: {exc}", hint="download it again"
            ) from exc
        try:
            self.members: Mapping[str, zipfile.ZipInfo] = self._checked()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def is_bundle(self) -> bool:
        """Whether it holds a compiled bundle for the Snapdragon NPU, whole or not."""
        return are_bundle(self.members.keys())

    def header(self, name: str) -> GGUFHeader:
        """The header of a GGUF in it, read without unpacking. Raises GGUFError, ModelFileError."""
        member = self.members[name]
        try:
            with self._zip.open(member) as file:

                def read(offset: int, length: int) -> bytes:
                    file.seek(offset)
                    return file.read(length)

                return parse_header(read, f"{self.path}/{name}", member.file_size)
        except _DAMAGE as exc:
            raise self._damaged(name, exc) from exc

    def read(self, name: str, limit: int) -> bytes:
        """Up to `limit` bytes of a file in it. Raises ModelFileError."""
        try:
            with self._zip.open(self.members[name]) as file:
                return file.read(limit)
        except _DAMAGE as exc:
            raise self._damaged(name, exc) from exc

    def extract(self, name: str, target: Path, advance: Callable[[int], None]) -> None:
        """Unpack one file, its checksum verified; `advance` is told bytes. Raises OSError for the
        target, ModelFileError for the archive."""
        with target.open("wb") as out:
            for block in self._blocks(name):
                out.write(block)
                advance(len(block))

    def _blocks(self, name: str) -> Iterator[bytes]:
        try:
            with self._zip.open(self.members[name]) as file:
                while block := file.read(_BLOCK):
                    yield block
        except _DAMAGE as exc:
            raise self._damaged(name, exc) from exc

    def _check_list(self, source: BinaryIO | None) -> None:
        """Refuse a list of entries that is absurdly long, before it is read."""
        length = min(self._size, _TAIL)
        if source is None:
            with self.path.open("rb") as file:
                file.seek(-length, 2)
                tail = file.read(length)
        else:
            source.seek(-length, 2)
            tail = source.read(length)
        if (stated := _list_bytes(tail)) > _MAX_LIST_BYTES:
            raise ModelFileError(
                f"`{self.path}` is refused: the list of its entries has {stated} bytes"
            )

    def _damaged(self, name: str, exc: Exception) -> ModelFileError:
        return ModelFileError(
            f"`{name}` in `{self.path}` is damaged: {exc}", hint="download it again"
        )

    def _refuse(self, entry: str, why: str) -> ModelFileError:
        return ModelFileError(f"`{self.path}` is refused: its entry {entry[:200]!a} {why}")

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        """The files by the names that they get, everything about them checked."""
        entries = self._zip.infolist()
        if len(entries) > _MAX_ENTRIES:
            raise ModelFileError(f"`{self.path}` is refused: it has {len(entries)} entries")
        files = [entry for entry in entries if self._wanted(entry)]
        total = sum(entry.file_size for entry in files)
        if total > _SUSPECT_BYTES and total > _SUSPECT_RATIO * self._size:
            raise ModelFileError(
                f"`{self.path}` is refused: it would unpack to {total} bytes, more than "
                f"{_SUSPECT_RATIO} times its size"
            )
        bases = {_base(_written(entry)) for entry in files}
        bundle = bool(bases & {BUNDLE_FACTS, BUNDLE_CONFIG})
        top = _common_folder([_written(entry) for entry in files])
        members: dict[str, zipfile.ZipInfo] = {}
        seen: dict[str, str] = {}
        for entry in files:
            written = _written(entry)
            inner = _base(written) if bundle else written.removeprefix(top)
            name = self._stored_name(written, inner, bundle)
            if other := seen.get(name.lower()):
                if other == name:
                    raise self._refuse(written, f"has the same name as another, `{name}`")
                raise self._refuse(
                    written, f"differs only in case from `{other}`: one name on many systems"
                )
            seen[name.lower()] = name
            members[name] = entry
        return members

    def _stored_name(self, written: str, inner: str, bundle: bool) -> str:
        name = storable(inner)
        if bundle and name != inner:
            # the files of a bundle call each other by name
            raise self._refuse(written, "has a name that not every file system takes")
        try:
            check_file_name(name)
        except ModelRefError as exc:
            raise self._refuse(written, f"cannot be stored: {exc.message}") from exc
        return name

    def _wanted(self, entry: zipfile.ZipInfo) -> bool:
        """Whether an entry is a file to take; raises for one that is dangerous."""
        name = _written(entry)
        parts = PurePosixPath(name).parts
        if ".." in parts or "\\" in name or name.startswith("/") or PureWindowsPath(name).drive:
            raise self._refuse(name, "leads out of the archive")
        if not entry.filename:
            raise self._refuse(name, "has no name")
        if entry.is_dir() or not parts or parts[-1].lower() in RESERVED:
            return False
        mode = entry.external_attr >> 16
        if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise self._refuse(name, "is a link or a device")
        if entry.flag_bits & 0x1:
            raise self._refuse(name, "is encrypted")
        return not any(part.startswith(".") or part == "__MACOSX" for part in parts)


# what zipfile and the decompressors raise for damaged or unknown content
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def _list_bytes(tail: bytes) -> int:
    """How long a zip's list of entries is, by its last bytes; 0 where they are not a zip's."""
    end = tail.rfind(_END)
    if end < 0 or end + 16 > len(tail):
        return 0
    # where the size has no room there is a larger record before it
    wide = end - 20 - 56
    if wide >= 0 and tail.startswith(_END_64, wide):
        return int.from_bytes(tail[wide + 40 : wide + 48], "little")
    return int.from_bytes(tail[end + 12 : end + 16], "little")


def _written(entry: zipfile.ZipInfo) -> str:
    """An entry's name as it was written, without `./` before or in it."""
    # not `filename`: zipfile cuts that at a NUL and turns the system's separators
    return str(PurePosixPath(entry.orig_filename))


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _common_folder(names: list[str]) -> str:
    """`a/` where all names begin so; empty otherwise."""
    tops = {name.partition("/")[0] for name in names}
    return f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in names) else ""
