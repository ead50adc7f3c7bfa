"""Reading the header of a GGUF, bounded: what a hostile or broken file may cost is fixed here.

Limits: 32,768 entries and as many tensors, 1 M strings in 64 MiB of string arrays, 16 MiB of kept
metadata; the largest models have 2,000 tensors, 800,000 strings and 15 MiB of them. Only a window
of the header (4 MiB) is in memory, and lengths are checked against the file's size before anything
is read, so a lie costs nothing.
"""

import math
import re
import struct
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from geniex_catalogue.ggml_types import GGML_TYPES, size_in_bytes
from geniex_catalogue.gguf_cursor import Cursor, ReadAt
from geniex_catalogue.gguf_impostors import explain_magic

Scalar: TypeAlias = int | float | bool | str

MAX_ENTRIES = MAX_TENSORS = 32_768
MAX_KEY = 65_535
MAX_TENSOR_NAME = 63
MAX_DIMENSIONS = 4
MAX_STRINGS = 1 << 20
MAX_STRING_BYTES = 64 << 20
MAX_KEPT_STRING = 1 << 20
MAX_KEPT_BYTES = 16 << 20
MAX_KEPT_NUMBERS = 1024
MAX_KEPT_STRINGS = 64
STRING, ARRAY = 8, 9

# value type -> (name, struct code)
VALUE_TYPES = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "?"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
# by number of dimensions: shape, type, offset
_TENSOR_REST = tuple(struct.Struct(f"<{n}QIQ") for n in range(MAX_DIMENSIONS + 1))
_TENSOR_MAX = 8 + MAX_TENSOR_NAME + 4 + _TENSOR_REST[-1].size
# many strings shorter than 64 bytes in one step: vocabularies are long, and this halves the time
_BLOCK = 256
_SHORT_STRINGS = b"(?s:" + b"|".join(b"\\x%02x\\x00{7}.{%d}" % (n, n) for n in range(64)) + b")"


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array (or a very long string) that was skipped over: what it is and where it lies.

    `type` is the name of its elements' type; `start` and `end` are byte offsets in the file.
    """

    type: str
    length: int
    start: int
    end: int


MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...] | ArrayInfo


class TensorInfo(NamedTuple):
    """A tensor's place: `shape` as in the file (row length first), `type` the ggml type id,
    `offset` in bytes from the start of the data section."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int

    @property
    def values(self) -> int:
        """How many values the tensor holds."""
        return math.prod(self.shape)

    @property
    def size(self) -> int | None:
        """Bytes of its data; None for a type that is not known here."""
        return size_in_bytes(self.type, self.values)


@dataclass(slots=True)
class RawHeader:
    """What the parser found: the header as it is, and where the tensors' data begins and ends."""

    version: int
    metadata: dict[str, MetadataValue]
    tensors: tuple[TensorInfo, ...]
    data_start: int
    data_end: int


def parse(read: ReadAt, name: str, size: int | None) -> RawHeader:
    """The header behind `read(offset, length)`; `size` is the file's, None where unknown.

    Raises GGUFError with the reason and the next step, within the limits of this module.
    """
    cursor = Cursor(read, name, size)
    version = _preamble(cursor)
    tensor_count, entry_count = cursor.u64(), cursor.u64()
    _check_count(cursor, entry_count, MAX_ENTRIES, 13, "metadata entries")
    _check_count(cursor, tensor_count, MAX_TENSORS, 24, "tensors")
    metadata: dict[str, MetadataValue] = {}
    for _ in range(entry_count):
        key = cursor.text(MAX_KEY, "a metadata key")
        if not key or key in metadata:
            cursor.fail(f"metadata key `{_short(key)}` is there twice" if key else "an empty key")
        cursor.kept_bytes += len(key)
        metadata[key] = _value(cursor, key)
        if cursor.kept_bytes > MAX_KEPT_BYTES:
            cursor.fail("its metadata is larger than any model's")
    alignment = _alignment(cursor, metadata)
    tensors = _tensors(cursor, tensor_count)
    data_start = -(-cursor.position // alignment) * alignment
    data_end = _check_layout(cursor, tensors, data_start, alignment)
    return RawHeader(version, metadata, tensors, data_start, data_end)


def _preamble(cursor: Cursor) -> int:
    """Check magic and version; give the version."""
    head = cursor.read(0, 512 if cursor.size is None else min(512, cursor.size))
    if head[:4] != b"GGUF":
        reason, hint = explain_magic(head, cursor.size)
        cursor.fail(reason, hint)
    cursor.skip(4)
    version = cursor.u32()
    if version & 0xFFFF == 0 and version:
        cursor.fail(
            "it is big-endian, made for another kind of machine", "get the little-endian file"
        )
    if version == 1:
        cursor.fail("its format version is 1, which no current program reads", "convert it anew")
    if version not in (2, 3):
        cursor.fail(
            f"its format version is {version}, known are 2 and 3",
            "download it again, or update geniex if the file is newer",
        )
    return version


def _check_count(cursor: Cursor, count: int, limit: int, least: int, what: str) -> None:
    """Refuse a count that no file of this size, or no model at all, can have."""
    if count > limit:
        cursor.fail(f"its header promises {count} {what}, an impossible number")
    cursor.expect(count * least)


def _value(cursor: Cursor, key: str) -> MetadataValue:
    """The value at the cursor."""
    kind = cursor.u32()
    if kind == STRING:
        return _string(cursor)
    if kind == ARRAY:
        return _array(cursor, key)
    if kind not in VALUE_TYPES:
        cursor.fail(f"metadata key `{_short(key)}` has the unknown value type {kind}")
    return _numbers(cursor, kind, 1)[0]


def _string(cursor: Cursor) -> str | ArrayInfo:
    """A string, or a note of where it lies when it is too long to keep."""
    length = cursor.u64()
    if length <= MAX_KEPT_STRING:
        cursor.kept_bytes += length
        return cursor.take(length).decode("utf-8", "replace")
    start = cursor.position
    cursor.skip(length)
    return ArrayInfo("uint8", length, start, start + length)


def _numbers(cursor: Cursor, kind: int, count: int) -> tuple[Scalar, ...]:
    code = VALUE_TYPES[kind][1]
    return struct.unpack(f"<{count}{code}", cursor.take(count * struct.calcsize(f"<{code}")))


def _array(cursor: Cursor, key: str) -> MetadataValue:
    """A short array as a tuple, a long one as ArrayInfo."""
    kind, length = cursor.u32(), cursor.u64()
    start = cursor.position
    if kind == STRING:
        if length <= MAX_KEPT_STRINGS and key != "tokenizer.ggml.tokens":
            items = tuple(_string(cursor) for _ in range(length))
            if all(isinstance(item, str) for item in items):
                return tuple(item for item in items if isinstance(item, str))
        else:
            _skip_strings(cursor, length)
        return ArrayInfo("string", length, start, cursor.position)
    if kind not in VALUE_TYPES:
        nested = "is a nested array" if kind == ARRAY else f"has the unknown element type {kind}"
        cursor.fail(f"metadata key `{_short(key)}` {nested}")
    name, code = VALUE_TYPES[kind]
    size = struct.calcsize(f"<{code}") * length
    if length <= MAX_KEPT_NUMBERS:
        cursor.kept_bytes += 32 * length
        return _numbers(cursor, kind, length)
    cursor.skip(size)
    return ArrayInfo(name, length, start, start + size)


def _skip_strings(cursor: Cursor, count: int) -> None:
    """Move over `count` strings without making objects of them."""
    cursor.strings += count
    if cursor.strings > MAX_STRINGS:
        cursor.fail(f"its header promises {cursor.strings} strings, an impossible number")
    cursor.expect(8 * count)
    start = cursor.position
    block = re.compile(_SHORT_STRINGS + b"{%d}+" % _BLOCK) if count >= 32 * _BLOCK else None
    while count:
        if block and count >= _BLOCK and (found := block.match(cursor.window, cursor.at)):
            cursor.at = found.end()
            count -= _BLOCK
            continue
        # a long string is in the way, or the window's end
        _walk_strings(cursor, min(count, _BLOCK))
        count -= min(count, _BLOCK)
        if cursor.string_bytes + cursor.position - start > MAX_STRING_BYTES:
            cursor.fail("its string arrays are larger than any model's")
    cursor.string_bytes += cursor.position - start


def _walk_strings(cursor: Cursor, count: int) -> None:
    """Move over `count` strings one by one."""
    length_at = _U64.unpack_from
    window, at, end = cursor.window, cursor.at, len(cursor.window)
    for _ in range(count):
        if at + 8 > end:
            cursor.at = at
            cursor.need(8)
            window, at, end = cursor.window, cursor.at, len(cursor.window)
        length = length_at(window, at)[0]
        at += 8 + length
        if at > end:
            cursor.at = at - length
            cursor.skip(length)
            window, at, end = cursor.window, cursor.at, len(cursor.window)
    cursor.at = at


def _alignment(cursor: Cursor, metadata: dict[str, MetadataValue]) -> int:
    value = metadata.get("general.alignment", 32)
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        cursor.fail(f"its alignment `{value}` is not a power of two")
    return value


def _tensors(cursor: Cursor, count: int) -> tuple[TensorInfo, ...]:
    """The tensors' names and places, each checked by itself."""
    tensors: list[TensorInfo] = []
    names: set[str] = set()
    for _ in range(count):
        tensor = _tensor(cursor)
        if tensor.name in names:
            cursor.fail(f"tensor `{_short(tensor.name)}` is there twice")
        names.add(tensor.name)
        tensors.append(tensor)
    return tuple(tensors)


def _tensor(cursor: Cursor) -> TensorInfo:
    """One tensor's name and place."""
    cursor.fill(_TENSOR_MAX)
    window, at = cursor.window, cursor.at
    try:
        length = _U64.unpack_from(window, at)[0]
        if length > MAX_TENSOR_NAME:
            cursor.fail(f"a tensor's name has an impossible length ({length} bytes)")
        at += 8 + length
        name = window[at - length : at].decode("utf-8", "replace")
        dimensions = _U32.unpack_from(window, at)[0]
        if dimensions > MAX_DIMENSIONS:
            cursor.fail(f"tensor `{_short(name)}` has {dimensions} dimensions, of at most 4")
        rest = _TENSOR_REST[dimensions]
        *shape, kind, offset = rest.unpack_from(window, at + 4)
    except struct.error:
        cursor.fail(f"the file ends after {cursor.start + len(window)} bytes, in its header")
    cursor.at = at + 4 + rest.size
    values = math.prod(shape)
    if values >= 1 << 63 or max(shape, default=0) >= 1 << 63:
        cursor.fail(f"tensor `{_short(name)}` has an impossible shape {shape}")
    known = GGML_TYPES.get(kind)
    if known and (shape[0] if shape else 1) % known[1]:
        cursor.fail(f"tensor `{_short(name)}` has rows that do not fill {known[0]} blocks")
    return TensorInfo(name, tuple(shape), kind, offset)


def _check_layout(
    cursor: Cursor, tensors: tuple[TensorInfo, ...], data_start: int, alignment: int
) -> int:
    """Refuse data that overlaps, has gaps, or ends beyond the file; give the data's end.

    After a tensor of unknown type the next one may begin anywhere behind it.
    """
    end: int = 0
    exact = True
    for tensor in tensors:
        begin = -(-end // alignment) * alignment
        if tensor.offset % alignment or tensor.offset < begin or (exact and tensor.offset > begin):
            name = _short(tensor.name)
            cursor.fail(f"the data of tensor `{name}` is at {tensor.offset}, expected at {begin}")
        size = tensor.size
        exact = size is not None
        end = tensor.offset + (size or 0)
    if not tensors:
        return cursor.position
    if cursor.size is not None and data_start + end > cursor.size:
        cursor.fail(
            f"the file ends after {cursor.size} bytes, its header promises {data_start + end}"
        )
    return data_start + end


def _short(text: str) -> str:
    """Text from a file as it may stand in a message."""
    return text[:60].encode("unicode_escape").decode("ascii")
