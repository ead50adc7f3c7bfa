"""A GGUF file taken apart, so that it can be put together wrongly."""

import struct
from dataclasses import dataclass, field
from typing import TypeAlias

STRING, ARRAY = 8, 9
U16, U32, I32, F32, BOOL = 2, 4, 5, 6, 7
# value type -> bytes
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# ggml type -> values and bytes of a block: F32, F16, Q4_0, Q8_0, Q4_K, BF16
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 30: (1, 2)}
ALIGNMENT = 32

Number: TypeAlias = int | float


@dataclass(slots=True)
class Entry:
    """One metadata entry: `value` is its bytes behind the type."""

    key: str
    kind: int
    value: bytes


@dataclass(slots=True)
class Tensor:
    """One tensor's entry, and its data as `bytes` of the file."""

    name: str
    shape: list[int]
    kind: int
    offset: int
    data: bytes


@dataclass(slots=True)
class Parts:
    """The parts; `entry_count` and `tensor_count` are what the header says, None: the truth."""

    entries: list[Entry]
    tensors: list[Tensor]
    version: int = 3
    entry_count: int | None = None
    tensor_count: int | None = None
    tail: bytes = field(default=b"")

    def entry(self, key: str) -> Entry | None:
        """The entry of that key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def place(self) -> None:
        """Give every tensor the offset that its data has when they stand one behind another."""
        at = 0
        for tensor in self.tensors:
            tensor.offset = at
            at += -(-len(tensor.data) // ALIGNMENT) * ALIGNMENT

    def header(self) -> bytes:
        """All that stands before the data."""
        counts = (
            len(self.tensors) if self.tensor_count is None else self.tensor_count,
            len(self.entries) if self.entry_count is None else self.entry_count,
        )
        out = [b"GGUF", struct.pack("<IQQ", self.version, *counts)]
        out += [string(e.key) + struct.pack("<I", e.kind) + e.value for e in self.entries]
        for tensor in self.tensors:
            form = f"<I{len(tensor.shape)}QIQ"
            facts = (len(tensor.shape), *tensor.shape, tensor.kind, tensor.offset)
            out.append(string(tensor.name) + struct.pack(form, *facts))
        head = b"".join(out)
        return head + bytes(-len(head) % ALIGNMENT)

    def pack(self) -> bytes:
        """The file. The data stands in the tensors' order, whatever their offsets say."""
        data = [t.data + bytes(-len(t.data) % ALIGNMENT) for t in self.tensors]
        return self.header() + b"".join(data) + self.tail


def string(text: str | bytes) -> bytes:
    """A string of the format."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def strings(items: list[bytes]) -> bytes:
    """An array of strings, behind its type."""
    return struct.pack("<IQ", STRING, len(items)) + b"".join(map(string, items))


def numbers(kind: int, items: list[Number]) -> bytes:
    """An array of u32, i32 or f32, behind its type."""
    code = {U32: "I", I32: "i", F32: "f"}[kind]
    return struct.pack(f"<IQ{len(items)}{code}", kind, len(items), *items)


def items_of(entry: Entry) -> list[bytes]:
    """The items of an array, each as its bytes; of strings without their lengths."""
    kind, count = struct.unpack_from("<IQ", entry.value)
    at, found = 12, []
    for _ in range(count):
        size = SIZES.get(kind, 0)
        if kind == STRING:
            (size,) = struct.unpack_from("<Q", entry.value, at)
            at += 8
        found.append(entry.value[at : at + size])
        at += size
    return found


def data_size(kind: int, shape: list[int]) -> int:
    """Bytes of a tensor of a type in BLOCKS."""
    values = 1
    for length in shape:
        values *= length
    per, size = BLOCKS[kind]
    return values // per * size


def take_apart(data: bytes) -> Parts:
    """The parts of a good file."""
    version, tensor_count, entry_count = struct.unpack_from("<IQQ", data, 4)
    at = 24
    entries: list[Entry] = []
    for _ in range(entry_count):
        key, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        end = _value_end(data, at + 4, kind)
        entries.append(Entry(key, kind, data[at + 4 : end]))
        at = end
    places: list[tuple[str, list[int], int, int]] = []
    for _ in range(tensor_count):
        name, at = _text(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        *shape, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", data, at + 4)
        at += 4 + 8 * dimensions + 12
        places.append((name, shape, kind, offset))
    start = -(-at // ALIGNMENT) * ALIGNMENT
    tensors = [
        Tensor(name, shape, kind, offset, _slice(data, start + offset, data_size(kind, shape)))
        for name, shape, kind, offset in places
    ]
    return Parts(entries, tensors, version)


def _slice(data: bytes, start: int, size: int) -> bytes:
    return data[start : start + size]


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length].decode(), at + 8 + length


def _value_end(data: bytes, at: int, kind: int) -> int:
    """Where a value ends that begins at a place."""
    if kind == STRING:
        return at + 8 + int(struct.unpack_from("<Q", data, at)[0])
    if kind != ARRAY:
        return at + SIZES[kind]
    of, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if of != STRING:
        return at + SIZES[of] * int(count)
    for _ in range(count):
        at += 8 + int(struct.unpack_from("<Q", data, at)[0])
    return at
