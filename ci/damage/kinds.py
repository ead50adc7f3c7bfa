"""Kinds of damage to bytes, tensors and split sets: each makes a wrong file of a good one."""

import random
import struct
from collections.abc import Callable
from typing import TypeAlias

from ci.damage.parts import (
    BLOCKS,
    I32,
    STRING,
    U16,
    U32,
    Entry,
    Parts,
    Tensor,
    data_size,
    string,
    take_apart,
)

# the files of a model, by name; the first is the one that is named
Files: TypeAlias = dict[str, bytes]
Kind: TypeAlias = Callable[[random.Random, bytes], Files]

FILE = "model-Q8_0.gguf"
HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1)


def of_bytes(damage: Callable[[random.Random, bytearray, int], bytes | bytearray]) -> Kind:
    """A kind that works on the bytes; it also gets where the data begins."""

    def kind(rng: random.Random, good: bytes) -> Files:
        start = len(take_apart(good).header())
        return {FILE: bytes(damage(rng, bytearray(good), start))}

    return kind


def of_parts(damage: Callable[[random.Random, Parts], None]) -> Kind:
    """A kind that works on the parts."""

    def kind(rng: random.Random, good: bytes) -> Files:
        parts = take_apart(good)
        damage(rng, parts)
        return {FILE: parts.pack()}

    return kind


# -- bytes


def flipped(first: int | None, last: int | None, most: int) -> Kind:
    """Bits that are not what they were, between two places (None: the start of the data)."""

    def damage(rng: random.Random, data: bytearray, start: int) -> bytearray:
        low = start if first is None else first
        high = min(len(data), start if last is None else last)
        for _ in range(rng.randint(1, most)):
            data[rng.randrange(low, high)] ^= 1 << rng.randrange(8)
        return data

    return of_bytes(damage)


def _infos_flipped(rng: random.Random, data: bytearray, start: int) -> bytearray:
    first = bytes(data).index(string("token_embd.weight"))
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(first, start)] ^= 1 << rng.randrange(8)
    return data


def _run_replaced(rng: random.Random, data: bytearray, start: int) -> bytearray:
    at, length = rng.randrange(len(data)), rng.choice((4, 64, 4096, 65536))
    length = min(length, len(data) - at)
    data[at : at + length] = bytes(length) if rng.random() < 0.5 else rng.randbytes(length)
    return data


def _bytes_lost(rng: random.Random, data: bytearray, start: int) -> bytearray:
    at = rng.randrange(start if rng.random() < 0.7 else len(data))
    del data[at : at + rng.choice((1, 8, 32, 4096))]
    return data


def _bytes_added(rng: random.Random, data: bytearray, start: int) -> bytearray:
    at = rng.choice((rng.randrange(start), rng.randrange(len(data)), len(data)))
    data[at:at] = rng.randbytes(rng.choice((1, 8, 32, 4096)))
    return data


def _noise(rng: random.Random, data: bytearray, start: int) -> bytearray:
    return data[: rng.choice((0, 4, 24, 200))] + rng.randbytes(rng.randint(1, 1 << 16))


def _cut_in_header(rng: random.Random, data: bytearray, start: int) -> bytearray:
    return data[: rng.choice((rng.randrange(0, 32), rng.randrange(start)))]


def _cut_in_data(rng: random.Random, data: bytearray, start: int) -> bytearray:
    return data[: rng.randrange(start, len(data))]


def _cut_at_the_end(rng: random.Random, data: bytearray, start: int) -> bytearray:
    return data[: -rng.choice((1, 31, 32, 33, 1024))]


def _zeros_at_the_end(rng: random.Random, data: bytearray, start: int) -> bytearray:
    at = rng.randrange(start, len(data))
    data[at:] = bytes(len(data) - at)
    return data


# -- tensors


def _counts(rng: random.Random, parts: Parts) -> None:
    lie = rng.choice((*HUGE, 0, 1, len(parts.tensors) + 1, len(parts.tensors) - 1, 40_000))
    if rng.random() < 0.5:
        parts.tensor_count = lie
    else:
        parts.entry_count = lie


def _swapped(rng: random.Random, parts: Parts) -> None:
    """Two tensors whose data has changed places: of one size, so that nothing else shows it."""
    one = rng.choice(parts.tensors)
    same = [t for t in parts.tensors if t is not one and len(t.data) == len(one.data)]
    other = rng.choice(same or parts.tensors)
    one.data, other.data = other.data, one.data
    parts.place()


def _names_swapped(rng: random.Random, parts: Parts) -> None:
    one, other = rng.sample(parts.tensors, 2)
    one.name, other.name = other.name, one.name


def _offset(rng: random.Random, parts: Parts) -> None:
    end = sum(len(t.data) for t in parts.tensors)
    tensor = rng.choice(parts.tensors)
    near = (tensor.offset + 32, tensor.offset + 1, max(0, tensor.offset - 32), 0, end, end - 32)
    tensor.offset = rng.choice((*near, *HUGE[:-1], 2**64 - 32))


def _relabelled(rng: random.Random, parts: Parts) -> None:
    """Another type in the header, the data as it is."""
    rng.choice(parts.tensors).kind = rng.choice((*BLOCKS, 5, 29, 43, 99, 2**31, 2**32 - 1))


def _retyped(rng: random.Random, parts: Parts) -> None:
    """Another type, with as much data as that takes."""
    tensor = rng.choice(parts.tensors)
    fitting = [k for k, (per, _) in BLOCKS.items() if not tensor.shape[0] % per]
    tensor.kind = rng.choice([k for k in fitting if k != tensor.kind])
    _refill(rng, tensor)
    parts.place()


def _reshaped(rng: random.Random, parts: Parts) -> None:
    """Other dimensions in the header, the data as it is."""
    tensor = rng.choice(parts.tensors)
    at = rng.randrange(len(tensor.shape))
    odd = (0, 1, 32, tensor.shape[at] * 2, tensor.shape[at] // 2, tensor.shape[at] + 32, *HUGE)
    tensor.shape[at] = rng.choice(odd)


def _resized(rng: random.Random, parts: Parts) -> None:
    """Other dimensions, with as much data as they take."""
    tensor = rng.choice(parts.tensors)
    at = rng.randrange(len(tensor.shape))
    tensor.shape[at] = rng.choice((32, 64, tensor.shape[at] * 2, max(32, tensor.shape[at] // 2)))
    _refill(rng, tensor)
    parts.place()


def _turned(rng: random.Random, parts: Parts) -> None:
    tensor = rng.choice([t for t in parts.tensors if len(t.shape) > 1])
    tensor.shape.reverse()


def _more_dimensions(rng: random.Random, parts: Parts) -> None:
    tensor = rng.choice(parts.tensors)
    tensor.shape = rng.choice(
        ([], [*tensor.shape, 1, 1], [*tensor.shape, 1, 1, 1, 1], [tensor.shape[0], 1, 1, 2**20])
    )


def _renamed(rng: random.Random, parts: Parts) -> None:
    tensor = rng.choice(parts.tensors)
    odd = ("", "x", "blk.99.attn_q.weight", "blk.-1.ffn_up.weight", tensor.name + "\0z", "\x1b[31m")
    tensor.name = rng.choice((tensor.name.replace("weight", "bias"), tensor.name[:-1], *odd))


def _missing(rng: random.Random, parts: Parts) -> None:
    for _ in range(rng.choice((1, 1, 1, 5))):
        parts.tensors.remove(rng.choice(parts.tensors))
    parts.place()


def _twice(rng: random.Random, parts: Parts) -> None:
    one = rng.choice(parts.tensors)
    name = rng.choice((one.name, "blk.7.attn_q.weight", "output.weight", "extra"))
    parts.tensors.append(Tensor(name, list(one.shape), one.kind, 0, one.data))
    parts.place()


def _nowhere(rng: random.Random, parts: Parts) -> None:
    parts.tensors.clear()


def _no_numbers(rng: random.Random, parts: Parts) -> None:
    """Weights that are NaN, infinite or huge."""
    tensor = rng.choice([t for t in parts.tensors if t.kind == 0])
    odd = rng.choice((float("nan"), float("inf"), float("-inf"), 3e38, 0.0))
    values = len(tensor.data) // 4
    tensor.data = struct.pack("<f", odd) * values


def _noisy_weights(rng: random.Random, parts: Parts) -> None:
    tensor = rng.choice(parts.tensors)
    tensor.data = rng.randbytes(len(tensor.data))


def _refill(rng: random.Random, tensor: Tensor) -> None:
    size = data_size(tensor.kind, tensor.shape)
    tensor.data = (tensor.data * (size // max(1, len(tensor.data)) + 1))[:size]


# -- sets


def _split(rng: random.Random, good: bytes) -> Files:
    """A set of two parts, with something wrong about the set."""
    parts = take_apart(good)
    half = len(parts.tensors) // 2
    first = Parts(parts.entries, parts.tensors[:half])
    second = Parts([], parts.tensors[half:])
    how = rng.choice(("whole", "same part", "wrong number", "count", "cut", "other", "missing"))
    total = len(parts.tensors) + (how == "count")
    for number, part in enumerate((first, second)):
        part.place()
        told = 7 if how == "wrong number" and number else number
        part.entries = [*part.entries, *_split_entries(told, total)]
    one, two = first.pack(), second.pack()
    if how == "same part":
        two = one
    elif how == "cut":
        two = two[: rng.randrange(len(two))]
    elif how == "other":
        second.tensors.pop()
        two = second.pack()
    names = [FILE.replace(".gguf", f"-{n:05}-of-00002.gguf") for n in (1, 2)]
    return {names[0]: one} if how == "missing" else dict(zip(names, (one, two), strict=True))


def _split_entries(number: int, total: int) -> list[Entry]:
    return [
        Entry("split.no", U16, struct.pack("<H", number)),
        Entry("split.count", U16, struct.pack("<H", 2)),
        Entry("split.tensors.count", I32, struct.pack("<i", total)),
    ]


def _lone_part(rng: random.Random, parts: Parts) -> None:
    parts.entries += _split_entries(rng.choice((0, 1, 2**16 - 1)), len(parts.tensors))
    if rng.random() < 0.5:
        parts.entries[-2].value = struct.pack("<H", rng.choice((0, 1, 3, 2**16 - 1)))


def _alignment(rng: random.Random, parts: Parts) -> None:
    value = rng.choice((0, 1, 2, 16, 33, 64, 4096, 2**31, 2**32 - 1))
    parts.entries.append(Entry("general.alignment", U32, struct.pack("<I", value)))


def _version(rng: random.Random, parts: Parts) -> None:
    parts.version = rng.choice((0, 1, 2, 4, 99, 3 << 24, 2**32 - 1))


def _key_twice(rng: random.Random, parts: Parts) -> None:
    parts.entries.insert(0, rng.choice(parts.entries))


def _name(rng: random.Random, parts: Parts) -> None:
    entry = parts.entry("general.name")
    if entry is None:
        entry = Entry("general.name", STRING, b"")
        parts.entries.append(entry)
    entry.value = string(rng.choice((b"", b"\xff\xfe", b"\x1b[2J", b"a\0b", b"x" * (2 << 20))))


KINDS: dict[str, Kind] = {
    "bits of the preamble": flipped(0, 24, 3),
    "bits of the metadata": flipped(24, 1600, 3),
    "bits of the header": flipped(24, None, 8),
    "bits of the tensors' entries": of_bytes(_infos_flipped),
    "bits of the data": flipped(None, 1 << 40, 2000),
    "a run of bytes": of_bytes(_run_replaced),
    "bytes lost": of_bytes(_bytes_lost),
    "bytes added": of_bytes(_bytes_added),
    "noise": of_bytes(_noise),
    "cut in the header": of_bytes(_cut_in_header),
    "cut in the data": of_bytes(_cut_in_data),
    "cut at the end": of_bytes(_cut_at_the_end),
    "zeros at the end": of_bytes(_zeros_at_the_end),
    "counts": of_parts(_counts),
    "version": of_parts(_version),
    "a key twice": of_parts(_key_twice),
    "an odd name": of_parts(_name),
    "alignment": of_parts(_alignment),
    "data swapped": of_parts(_swapped),
    "names swapped": of_parts(_names_swapped),
    "offset": of_parts(_offset),
    "type in the header": of_parts(_relabelled),
    "type": of_parts(_retyped),
    "shape in the header": of_parts(_reshaped),
    "shape": of_parts(_resized),
    "shape turned": of_parts(_turned),
    "dimensions": of_parts(_more_dimensions),
    "tensor renamed": of_parts(_renamed),
    "tensor missing": of_parts(_missing),
    "tensor twice": of_parts(_twice),
    "no tensors": of_parts(_nowhere),
    "weights without numbers": of_parts(_no_numbers),
    "weights of noise": of_parts(_noisy_weights),
    "split set": _split,
    "lone part": of_parts(_lone_part),
}
