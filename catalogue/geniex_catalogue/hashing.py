"""The sha256 of a file, read once from beginning to end."""

import hashlib
from collections.abc import Callable
from pathlib import Path

_BLOCK = 1 << 20


def sha256_of(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """The digest in lower-case hex; `advance` is told the bytes just read. Raises OSError."""
    digest = hashlib.sha256()
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(view[:count])
            if advance is not None:
                advance(count)
    return digest.hexdigest()
