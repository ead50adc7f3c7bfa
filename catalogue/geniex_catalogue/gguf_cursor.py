"""A position in a GGUF file, with a window of its bytes: reading that cannot be led astray."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from geniex_catalogue.errors import GGUFError

# (offset, length) -> up to that many bytes from there
ReadAt: TypeAlias = Callable[[int, int], bytes]

FIRST_WINDOW, LARGEST_WINDOW = 256 << 10, 4 << 20
AGAIN = "download the file again: it is incomplete or damaged"

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


@dataclass(slots=True)
class Cursor:
    """A position in the file with a window of bytes behind it; `at` counts within the window."""

    read: ReadAt
    name: str
    size: int | None
    window: bytes = b""
    start: int = 0
    at: int = 0
    strings: int = 0
    string_bytes: int = 0
    kept_bytes: int = 0
    step: int = field(default=FIRST_WINDOW)

    @property
    def position(self) -> int:
        """The byte offset in the file."""
        return self.start + self.at

    def fail(self, reason: str, hint: str | None = AGAIN) -> NoReturn:
        """Raise GGUFError for this file."""
        raise GGUFError(self.name, reason, hint=hint)

    def expect(self, count: int) -> None:
        """Refuse when fewer than `count` bytes are left in a file whose size is known."""
        if self.size is not None and self.position + count > self.size:
            self.fail(
                f"the file ends after {self.size} bytes, its header promises at least "
                f"{self.position + count}"
            )

    def need(self, count: int) -> None:
        """Have the next `count` bytes in the window, or refuse the file."""
        if self.at + count <= len(self.window):
            return
        self.expect(count)
        self.fill(count)
        if len(self.window) < count:
            self.fail(f"the file ends after {self.start + len(self.window)} bytes, in its header")

    def fill(self, count: int) -> None:
        """Have the next `count` bytes in the window, or all that the file has."""
        if self.at + count <= len(self.window):
            return
        rest = self.window[self.at :]
        self.start, self.at = self.position, 0
        wanted = max(count - len(rest), self.step)
        if self.size is not None:
            wanted = min(wanted, self.size - self.start - len(rest))
        self.window = rest + self.read(self.start + len(rest), wanted)
        self.step = min(self.step * 2, LARGEST_WINDOW)

    def skip(self, count: int) -> None:
        """Move on by `count` bytes without reading them."""
        self.expect(count)
        self.at += count
        if self.at > len(self.window):
            self.start, self.at, self.window = self.position, 0, b""

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        self.need(count)
        self.at += count
        return self.window[self.at - count : self.at]

    def u32(self) -> int:
        """The next unsigned 32-bit number."""
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        """The next unsigned 64-bit number."""
        return int(_U64.unpack(self.take(8))[0])

    def text(self, limit: int, what: str) -> str:
        """The next string, refused when it is longer than `limit` bytes."""
        length = self.u64()
        if length > limit:
            self.fail(f"{what} has an impossible length ({length} bytes)")
        return self.take(length).decode("utf-8", "replace")
