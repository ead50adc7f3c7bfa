"""A slot's tokens and state in a file: written in one step, read where every byte is right.

    magic     16 bytes
    length    8 bytes, little-endian, of the head
    checksum  32 bytes, SHA-256 of head and tokens
    head      JSON: what it was made with, how many tokens, the state's bytes and SHA-256
    tokens    4 bytes each, little-endian
    state     as llama.cpp writes it

llama.cpp takes a state on trust and may end the process over one that is damaged: it gets none
whose checksum is wrong, and none that was made with other files, another build or other options.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from geniex_catalogue import durable
from geniex_catalogue.regular import open_regular

Tokens = npt.NDArray[np.int32]
State = npt.NDArray[np.uint8]

MAGIC = b"geniex prefix 1\n"
_OURS = b"geniex prefix "
_MAX_HEAD = 1 << 20
_MAX_TOKENS = 1 << 26
_PIECE = 1 << 20  # read and summed up in pieces that stay in the CPU's cache
_PRIVATE = 0o600
# facts that differ -> what is told of it; in this order
_APART = {
    "build": "it was made with another build of llama.cpp",
    "model": "it was made with another model file, or the file has changed since",
    "context": "it was made with other options (slots, KV type, compute unit or speculation)",
}


class UnfitError(Exception):
    """Raised for a file that cannot be used; the text says why. Never leaves the runtime."""


class ForeignError(UnfitError):
    """Raised for a file that geniex never wrote."""


class DamagedError(UnfitError):
    """Raised for a file of ours that is not what was written."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a slot held. `first` is the earliest position that has all its cells.

    `pace` is the seconds that a token of a prompt took, 0 where nobody knows. `parts` are lengths
    that it can be cut back to all the same, with what to restore then.
    """

    tokens: Tokens
    state: State
    first: int = 0
    pace: float = 0.0
    parts: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """A file without its state, which is `size` bytes from `start` on.

    Those of the `parts` (length in tokens, bytes) lie at its end.
    """

    path: Path
    facts: Mapping[str, str]
    tokens: Tokens
    first: int
    pace: float
    start: int
    size: int
    digest: str
    parts: tuple[tuple[int, int], ...] = ()

    def shared(self, prompt: Tokens) -> int:
        """How many leading tokens of a prompt it holds."""
        length = min(len(self.tokens), len(prompt))
        apart = np.flatnonzero(self.tokens[:length] != prompt[:length])
        return int(apart[0]) if len(apart) else length

    def check(self, facts: Mapping[str, str]) -> None:
        """Raise UnfitError where it was made with something else."""
        for name, said in _APART.items():
            if self.facts.get(name) != facts.get(name):
                raise UnfitError(said)


def tokens_of(tokens: Sequence[int]) -> Tokens:
    """Token ids as files have them."""
    return np.asarray(tokens, np.dtype("<i4"))


def write(path: Path, facts: Mapping[str, str], kept: Snapshot) -> None:
    """Write a snapshot, for its owner's eyes alone. Raises OSError."""
    tokens = kept.tokens.tobytes()
    pieces: list[bytes | memoryview] = [kept.state.data, *(state for _, state in kept.parts)]
    checksum = hashlib.sha256()
    for piece in pieces:
        checksum.update(piece)
    head = json.dumps(
        {
            "facts": dict(facts),
            "tokens": len(kept.tokens),
            "first": kept.first,
            "pace": kept.pace,
            "size": sum(len(piece) for piece in pieces),
            "sha256": checksum.hexdigest(),
            "parts": [(length, len(state)) for length, state in kept.parts],
        }
    ).encode()
    begin = MAGIC + len(head).to_bytes(8, "little") + hashlib.sha256(head + tokens).digest()
    durable.write(path, begin + head + tokens, *pieces, mode=_PRIVATE)


def read_head(path: Path) -> Head:
    """All but the state. Raises UnfitError, DamagedError, OSError."""
    with open_regular(path) as file:
        _check_owner(file)
        begin = file.read(len(_OURS)) or b""
        if not _OURS.startswith(begin):
            raise ForeignError("it is something else, and stays as it is")
        fixed = begin + _read(file, len(MAGIC) + 8 + 32 - len(begin))
        if not fixed.startswith(MAGIC):
            raise UnfitError("it was made with another version of geniex")
        length = int.from_bytes(fixed[len(MAGIC) : len(MAGIC) + 8], "little")
        if length > _MAX_HEAD:
            raise DamagedError("it is damaged (its head)")
        text = _read(file, length)
        try:
            head = json.loads(text)
            count, size = int(head["tokens"]), int(head["size"])
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise DamagedError("it is damaged (its head)") from exc
        if not 0 <= count <= _MAX_TOKENS:
            raise DamagedError("it is damaged (its head)")
        tokens = _read(file, 4 * count)
        if hashlib.sha256(text + tokens).digest() != fixed[len(MAGIC) + 8 :]:
            raise DamagedError("it is damaged (the checksum of its head is wrong)")
        start = len(fixed) + len(text) + len(tokens)
        if os.fstat(file.fileno()).st_size != start + size:
            raise DamagedError("it is not whole")
    return Head(
        path=path,
        facts=head["facts"],
        tokens=np.frombuffer(tokens, np.dtype("<i4")),
        first=head["first"],
        pace=head["pace"],
        start=start,
        size=size,
        digest=head["sha256"],
        parts=tuple((length, size) for length, size in head["parts"]),
    )


def read(head: Head) -> Snapshot:
    """All of it, which is what was written. Raises DamagedError, OSError."""
    # not zeroed: that would touch every page once more
    state = np.empty(head.size, np.uint8)
    checksum = hashlib.sha256()
    with open_regular(head.path) as file:
        file.seek(head.start)
        for at in range(0, head.size, _PIECE):
            piece = state.data[at : at + _PIECE]
            _read_into(file, piece)
            checksum.update(piece)
    if checksum.hexdigest() != head.digest:
        raise DamagedError("it is damaged (its checksum is wrong)")
    at = head.size - sum(size for _, size in head.parts)
    whole, parts = state[:at], []
    for length, size in head.parts:
        parts.append((length, state[at : at + size].tobytes()))
        at += size
    return Snapshot(head.tokens, whole, head.first, head.pace, tuple(parts))


def _check_owner(file: FileIO) -> None:
    """Refuse what another user wrote, or may have: a state is taken on trust."""
    if not hasattr(os, "geteuid"):  # Windows: its folders are their owner's
        return
    found = os.fstat(file.fileno())
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnfitError("another user owns it, or may write to it")


def _read(file: FileIO, count: int) -> bytes:
    data = bytearray(count)
    _read_into(file, memoryview(data))
    return bytes(data)


def _read_into(file: FileIO, place: memoryview) -> None:
    at = 0
    while at < len(place):
        count = file.readinto(place[at:])
        if not count:
            raise DamagedError("it is not whole")
        at += count
