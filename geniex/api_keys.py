"""The keys that let clients in, and the file that they may stand in."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from geniex_catalogue.errors import UsageError
from geniex_catalogue.regular import read_regular

_MAX_FILE = 1 << 20
_BYTES = 32  # of a key that is made


class KeyRing:
    """All keys of a server: those that were given, and those of a file that can be read again.

    Usable from any thread.
    """

    def __init__(self, given: Iterable[str] = (), file: Path | None = None) -> None:
        """Raises UsageError for a file that cannot be read, or a key that cannot be sent."""
        self.file = file
        self._given = tuple(_digest(checked(key, "the API key")) for key in given)
        self._read: tuple[bytes, ...] = ()
        if file is not None:
            self.reload()

    def __len__(self) -> int:
        return len(self._given) + len(self._read)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} keys)"

    def reload(self) -> int:
        """Read the file again; the answer is how many keys there are now.

        Raises UsageError where it cannot be read, and goes on with the keys it has.
        """
        if self.file is not None:
            self._read = tuple(map(_digest, read_keys(self.file)))
        return len(self)

    def knows(self, key: str) -> bool:
        """Whether it is one of the keys, in a time that tells nothing of them."""
        given = _digest(key)
        # all of them, not only up to the one that fits
        found = [hmac.compare_digest(given, known) for known in (*self._given, *self._read)]
        return any(found)


def new_key() -> str:
    """A key that nobody guesses."""
    return secrets.token_urlsafe(_BYTES)


def checked(key: str, what: str) -> str:
    """The key. Raises UsageError for what cannot stand in a header, without telling it."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"{what} is empty, or holds what a header cannot",
            hint="use letters, digits and signs",
        )
    return key


def read_keys(file: Path) -> Sequence[str]:
    """The keys of a file: one a line, `#` begins a comment. Raises UsageError."""
    try:
        data = read_regular(file, _MAX_FILE + 1)
        text = data.decode("utf-8-sig")
    except OSError as exc:
        raise UsageError(
            f"the API keys in `{file}` cannot be read: {exc.strerror or exc}",
            hint="`--api-key-file` takes a file with a key on each line",
        ) from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"`{file}` is no text in UTF-8, so it holds no API keys") from exc
    if len(data) > _MAX_FILE:
        raise UsageError(f"`{file}` is larger than 1 MiB, so it is no file of API keys")
    lines = enumerate(text.splitlines(), start=1)
    bare = ((number, _without_comment(line)) for number, line in lines)
    keys = [
        checked(key, f"the API key on line {number} of `{file}`") for number, key in bare if key
    ]
    if not keys:
        raise UsageError(
            f"`{file}` holds no API key", hint="write one on each line; `#` begins a comment"
        )
    return keys


def _without_comment(line: str) -> str:
    clean = line.strip()
    return "" if clean.startswith("#") else clean.partition(" #")[0].strip()


def exposure(file: Path) -> str | None:
    """What is to be said of a file that other users of this machine may read, or None.

    On Windows the bits do not tell, so nothing is said.
    """
    if os.name != "posix":
        return None
    try:
        mode = file.stat().st_mode
    except OSError:
        return None
    if not mode & (stat.S_IROTH | stat.S_IWOTH):
        return None
    return f"other users of this machine may read the API keys in `{file}`; `chmod 600` keeps them"


def _digest(key: str) -> bytes:
    # of one length, whatever the key's
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
