"""Small GGUF files for tests, whole or wrong on purpose."""

import struct
from collections.abc import Iterable, Mapping

from geniex_catalogue.gguf import GGUFHeader, parse_header

CODES = {"u8": 0, "u16": 2, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "u64": 10, "f64": 12}
FORMATS = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "bool": "?", "u64": "Q"}


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: object, kind: str = "u32") -> bytes:
    """One metadata entry; text, a number of `kind`, or a list of either."""
    if isinstance(value, str):
        return string(key) + struct.pack("<I", 8) + string(value)
    if isinstance(value, list):
        text = bool(value) and isinstance(value[0], str)
        code = 8 if text else CODES[kind]
        items = b"".join(string(v) if text else struct.pack(f"<{FORMATS[kind]}", v) for v in value)
        return string(key) + struct.pack("<IIQ", 9, code, len(value)) + items
    return string(key) + struct.pack(f"<I{FORMATS[kind]}", CODES[kind], value)


def tensor(name: str, shape: Iterable[int], kind: int = 0, offset: int = 0) -> bytes:
    dims = tuple(shape)
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def build(
    entries: Iterable[bytes] = (),
    tensors: Iterable[bytes] = (),
    data: int = 0,
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A GGUF with `data` bytes behind its header; `counts` lies about tensors and entries."""
    keys, infos = list(entries), list(tensors)
    promised = counts or (len(infos), len(keys))
    head = b"GGUF" + struct.pack("<IQQ", version, *promised) + b"".join(keys) + b"".join(infos)
    return head + bytes(-len(head) % 32) + bytes(data)


def parsed(data: bytes) -> GGUFHeader:
    return parse_header(lambda at, length: data[at : at + length], "x.gguf", len(data))


def model(entries: Mapping[str, object] | None = None, *names: str) -> GGUFHeader:
    """A header with these metadata values and small F32 tensors of these names."""
    listed = [entry(key, value) for key, value in (entries or {}).items()]
    infos = [tensor(name, [8], 0, 32 * at) for at, name in enumerate(names)]
    return parsed(build(listed, infos, 32 * len(infos)))


def many(count: int, *, long: int = 0) -> bytes:
    """An array of `count` strings; every `long`-th is longer than the quick path takes."""
    items = [string("y" * 200 if long and n % long == 0 else f"t{n}") for n in range(count)]
    return struct.pack("<IIQ", 9, 8, count) + b"".join(items)


def small(
    architecture: str = "llama", part: tuple[int, int] | None = None, **keys: str | int
) -> bytes:
    """A whole little model; `part` is (number from 1, count) if split; `__` stands for `.`."""
    entries = [entry("general.architecture", architecture)]
    entries += [entry(key.replace("__", "."), value) for key, value in keys.items()]
    if part is not None:
        entries += [entry("split.no", part[0] - 1, "u16"), entry("split.count", part[1], "u16")]
    # as long as the other name, so that all parts have one size
    name = "token_embd.weight" if part is None or part[0] == 1 else f"blk.{part[0]:06}.weight"
    return build(entries, [tensor(name, [8])], 32)
