"""The part of a file that has arrived: bytes on disk, and beside them what they belong to."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Self

from geniex_catalogue.errors import DiskSpaceError, GenieXError, StoreError
from geniex_catalogue.regular import read_regular

# what is added to a file's name: for its part, and for what is known of the part
ENDING = ".partial"
FACTS_ENDING = f"{ENDING}.json"
_BLOCK = 1 << 20
_MAX_FACTS = 1 << 16
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class Part:
    """A file that grows at its end, and the hash of what it holds.

    `position` is how many bytes are here. `etag` is the version that they are of, as the server
    named it; a small JSON file beside keeps it, with the sha256 and the size that the hub states.
    """

    def __init__(self, path: Path, *, sha256: str | None, size: int | None) -> None:
        self.path = path
        self.sha256 = sha256
        self.size = size
        self.position = 0
        self.etag: str | None = None
        self._hash = hashlib.sha256()

    def __enter__(self) -> Self:
        """Open or make the file; bytes of another version are dropped. Raises StoreError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # unbuffered: nothing may be written any more once the caller has left
            self._file = self.path.open("r+b" if self.path.exists() else "x+b", buffering=0)
            length = self._file.seek(0, os.SEEK_END)
            if length and (not self._belongs() or length > (self.size or length)):
                self._file.truncate(0)
                length = 0
        except OSError as exc:
            raise self._failure(exc) from exc
        self.position = length
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _belongs(self) -> bool:
        """Whether the bytes here are of the file that the hub states; reads the etag."""
        try:
            facts = json.loads(read_regular(facts_path(self.path), _MAX_FACTS))
            etag, sha256, size = facts["etag"], facts["sha256"], facts["size"]
        except (OSError, ValueError, LookupError, TypeError):
            return False
        self.etag = etag if isinstance(etag, str) else None
        if self.sha256 is not None and sha256 is not None:
            return bool(sha256 == self.sha256)
        return self.etag is not None and self.size in (None, size)

    def rehash(self, turn: Callable[[], None]) -> None:
        """Read the bytes that are here into the hash; `turn` is called between blocks."""
        try:
            self._file.seek(0)
            left = self.position
            while left > 0 and (block := self._file.read(min(left, _BLOCK))):
                self._hash.update(block)
                left -= len(block)
                turn()
        except OSError as exc:
            raise self._failure(exc) from exc

    def begin(self, etag: str | None) -> None:
        """Drop the bytes that are here and note the version of those that come."""
        facts = {"etag": etag, "sha256": self.sha256, "size": self.size}
        try:
            if self.position:
                self._file.truncate(0)
                self._file.seek(0)
            facts_path(self.path).write_text(json.dumps(facts), "utf-8")
        except OSError as exc:
            raise self._failure(exc) from exc
        self.etag, self.position, self._hash = etag, 0, hashlib.sha256()

    def append(self, data: bytes) -> None:
        """Write bytes at the end. Raises DiskSpaceError as soon as the disk is full."""
        rest = memoryview(data)
        try:
            while rest:
                written = self._file.write(rest)
                self._hash.update(rest[:written])
                self.position += written
                rest = rest[written:]
        except OSError as exc:
            raise self._failure(exc) from exc

    def settle(self) -> str:
        """Bring the bytes to the disk and give their sha256."""
        try:
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise self._failure(exc) from exc
        return self._hash.hexdigest()

    def _failure(self, exc: OSError) -> GenieXError:
        folder = self.path.parent
        if exc.errno in FULL:
            needed = (self.size or self.position) - self.position
            return DiskSpaceError(str(folder), needed, shutil.disk_usage(folder).free)
        return StoreError(f"`{self.path}` cannot be written: {exc.strerror or exc}")


def facts_path(part: Path) -> Path:
    """Where the version of a part's bytes is noted."""
    return part.with_name(part.name.removesuffix(ENDING) + FACTS_ENDING)
