"""What the header reader refuses, why, and what it costs."""

import os
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import geniex_catalogue
from geniex_catalogue.errors import GGUFError
from geniex_catalogue.gguf import ArrayInfo, GGUFHeader, parse_header, read_header
from tests.ggufwriter import build, entry, many, model, parsed, string, tensor

TARGET = Path(geniex_catalogue.__file__).parent / "builtin" / "tiny-chat-Q8_0.gguf"


def test_long_values_are_skipped_over() -> None:
    data = build(
        [
            entry("numbers", list(range(2000)), "i32"),
            entry("words", [f"w{n}" for n in range(300)]),
            entry("few", ["a", "b"]),
            entry("huge", "x" * (2 << 20)),
            entry("after", 7),
        ]
    )
    header = parsed(data)
    numbers, words, huge = (header.metadata[key] for key in ("numbers", "words", "huge"))
    assert isinstance(numbers, ArrayInfo)
    assert (numbers.type, numbers.length) == ("int32", 2000)
    assert isinstance(words, ArrayInfo)
    assert data[words.start : words.end].endswith(string("w299"))
    assert isinstance(huge, ArrayInfo)
    assert header.metadata["few"] == ("a", "b")
    assert header.number("after") == 7


def source(data: bytes, window: int) -> Callable[[int, int], bytes]:
    """A source that gives at least `window` bytes at a time."""
    return lambda at, length: data[at : at + max(length, window)]


@pytest.mark.parametrize("long", [0, 1, 1000, 5000])
def test_string_arrays_are_walked_right(long: int) -> None:
    data = build([string("words") + many(30_000, long=long), entry("after", 7)])
    for window in (10, 999, 1 << 20):
        header = parse_header(source(data, window), "x", None)
        assert header.number("after") == 7


WHOLE = build([entry("general.architecture", "m")], [tensor("a", [8])], 32)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n"
REFUSED: dict[str, tuple[bytes, str]] = {
    "zero length": (b"", "empty"),
    "four bytes": (b"GGUF", "ends after 4 bytes"),
    "two bytes": (b"GG", "ends after 2 bytes"),
    "html": (b"\n<!DOCTYPE html><html><body>no</body></html>", "HTML page"),
    "html in capitals": (b"<HTML><head>", "HTML page"),
    "json": (b'{"error":"Repository not found"}', "JSON text"),
    "xml": (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code>', "XML"),
    "lfs pointer": (LFS, "Git LFS pointer"),
    "zip": (b"PK\x03\x04" + bytes(60), "zip archive"),
    "safetensors": (struct.pack("<Q", 80) + b'{"a":{"dtype"' + bytes(80), "safetensors"),
    "ggml": (b"lmgg" + bytes(60), "GGML"),
    "ggjt": (b"tjgg" + bytes(60), "GGJT"),
    "zeros": (bytes(4096), "zeros"),
    "wrong magic": (b"XGUF" + bytes(60), "'XGUF'"),
    "binary magic": (b"\xff\xfe\x00\x01" + bytes(60), "instead of"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "version 0": (build(version=0), "version is 0"),
    "version 1": (build(version=1), "version is 1"),
    "version 99": (build(version=99), "version is 99"),
    "2^63 tensors": (build(counts=(1 << 63, 0)), "impossible number"),
    "2^63 entries": (build(counts=(0, 1 << 63)), "impossible number"),
    "2^64-1 both": (build(counts=((1 << 64) - 1, (1 << 64) - 1)), "impossible number"),
    "more tensors than fit": (build(counts=(30_000, 0)), "ends after"),
    "more entries than fit": (build(counts=(0, 30_000)), "ends after"),
    "huge key": (build([struct.pack("<Q", 1 << 62) + b"x" * 40]), "impossible length"),
    "huge string": (
        build([string("k") + struct.pack("<IQ", 8, (1 << 64) - 1) + bytes(32)]),
        "ends after",
    ),
    "huge array": (
        build([string("k") + struct.pack("<IIQ", 9, 0, (1 << 64) - 1) + bytes(32)]),
        "ends after",
    ),
    "huge array of strings": (
        build([string("k") + struct.pack("<IIQ", 9, 8, (1 << 64) - 1) + bytes(32)]),
        "impossible number",
    ),
    "string inside an array": (
        build([string("k") + struct.pack("<IIQQ", 9, 8, 1, (1 << 64) - 1) + bytes(32)]),
        "ends after",
    ),
    "string inside a long array": (
        build([string("k") + struct.pack("<IIQQ", 9, 8, 100, (1 << 64) - 1) + bytes(1000)]),
        "ends after",
    ),
    "nested array": (
        build([string("k") + struct.pack("<IIQ", 9, 9, 1) + bytes(64)]),
        "nested array",
    ),
    "unknown value type": (build([string("k") + struct.pack("<I", 77) + bytes(64)]), "type 77"),
    "unknown element type": (
        build([string("k") + struct.pack("<IIQ", 9, 77, 1) + bytes(64)]),
        "element type 77",
    ),
    "same key twice": (build([entry("k", 1), entry("k", 2)]), "twice"),
    "empty key": (build([entry("", 1)]), "empty key"),
    "alignment 0": (build([entry("general.alignment", 0)]), "power of two"),
    "alignment 7": (build([entry("general.alignment", 7)]), "power of two"),
    "alignment text": (build([entry("general.alignment", "32")]), "power of two"),
    "same tensor twice": (build([], [tensor("a", [8]), tensor("a", [8], 0, 32)], 64), "twice"),
    "long tensor name": (build([], [tensor("a" * 64, [8])], 32), "impossible length"),
    "nine dimensions": (build([], [tensor("a", [1] * 9)], 32), "9 dimensions"),
    "dimension 2^63": (build([], [tensor("a", [1 << 63])], 32), "impossible shape"),
    "product 2^63": (build([], [tensor("a", [1 << 40, 1 << 40])], 32), "impossible shape"),
    "half a block": (build([], [tensor("a", [33], 8)], 64), "blocks"),
    "data beyond the file": (build([], [tensor("a", [1 << 40])], 32), "ends after"),
    "offset beyond the file": (build([], [tensor("a", [8], 0, 1 << 50)], 32), "expected at 0"),
    "overlap": (build([], [tensor("a", [8]), tensor("b", [8], 0, 0)], 64), "expected at 32"),
    "gap": (build([], [tensor("a", [8]), tensor("b", [8], 0, 64)], 96), "expected at 32"),
    "misaligned": (build([], [tensor("a", [8], 0, 1)], 96), "expected at 0"),
    "truncated data": (WHOLE[:-1], "its header promises"),
    "truncated header": (WHOLE[:40], "ends after 40 bytes"),
    "shards put together": (
        build([entry("split.count", 2)], [tensor("a", [8])], 32) + WHOLE,
        "simply put together",
    ),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_with_reason_and_next_step(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(GGUFError) as caught:
        read_header(path)
    assert reason in caught.value.message
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_every_cut_of_a_file_is_refused() -> None:
    parsed(WHOLE)
    for end in range(len(WHOLE)):
        with pytest.raises(GGUFError):
            parsed(WHOLE[:end])


def test_more_bytes_than_promised_are_fine() -> None:
    assert parsed(WHOLE + bytes(100)).tensors == parsed(WHOLE).tensors


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(Path.mkdir, "a folder", id="folder"),
        pytest.param(os.mkfifo, "not a regular file", id="fifo"),
        pytest.param(link_to("/dev/zero"), "not a regular file", id="zero"),
        pytest.param(link_to("model.gguf"), "symbolic links", id="loop"),
        pytest.param(str, "no such file", id="missing"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_only_regular_files_are_read(
    tmp_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "model.gguf"
    make(path)
    with pytest.raises(GGUFError, match=reason):
        read_header(path)


def vocabulary(tokens: int, merges: int) -> bytes:
    scores = string("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, tokens) + bytes(4 * tokens)
    return build(
        [
            entry("general.architecture", "m"),
            string("tokenizer.ggml.tokens") + many(tokens),
            scores,
            string("tokenizer.ggml.merges") + many(merges),
        ],
        [tensor(f"blk.{n}.weight", [8], 0, 32 * n) for n in range(2500)],
        32 * 2500,
    )


def cost(path: Path) -> tuple[float, int]:
    """Best seconds of three, and peak bytes, of reading a header, refused or not."""

    def once() -> None:
        try:
            read_header(path)
        except GGUFError:
            return

    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        once()
        best = min(best, time.perf_counter() - start)
    tracemalloc.start()
    once()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return best, peak


@pytest.mark.parametrize("part", [1.0, 0.9, 0.5], ids=["whole", "cut late", "cut half"])
def test_large_vocabularies_cost_little(tmp_path: Path, part: float) -> None:
    data = vocabulary(262_144, 262_144)
    path = tmp_path / "model.gguf"
    path.write_bytes(data[: int(len(data) * part)])
    seconds, peak = cost(path)
    assert peak < 50 << 20
    # the limit is 0.1 s; a busy machine gets room
    assert seconds < 0.3


def test_sparse_giants_cost_little(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    arrays = {
        "strings": struct.pack("<IIQ", 9, 8, 1 << 30),
        "bytes": struct.pack("<IIQ", 9, 0, 1 << 35),
        "string": struct.pack("<IQ", 8, 1 << 35),
    }
    for array in arrays.values():
        path.write_bytes(build([string("k") + array], [], counts=(1, 2)))
        os.truncate(path, 40 << 30)
        seconds, peak = cost(path)
        assert peak < 50 << 20
        assert seconds < 0.3


NUMBERS = st.integers(0, 2**32 - 1)
VALUES = st.one_of(
    NUMBERS, st.text(max_size=40), st.lists(NUMBERS, max_size=30), st.lists(st.text(max_size=9))
)
KEYS = st.text(min_size=1, max_size=20).filter(lambda key: key != "general.alignment")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_what_is_written_is_read(entries: dict[str, object]) -> None:
    header = model(entries, "a")
    for key, value in entries.items():
        found = header.metadata[key]
        if isinstance(found, ArrayInfo):
            assert isinstance(value, list)
            assert found.length == len(value)
        else:
            assert found == (tuple(value) if isinstance(value, list) else value)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_headers_never_crash(data: st.DataObject) -> None:
    head = bytearray(data.draw(st.sampled_from([WHOLE, SMALL_TARGET])))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(head) - 8))
        head[at : at + 8] = data.draw(
            st.one_of(
                st.binary(min_size=8, max_size=8),
                st.sampled_from([b"\xff" * 8, bytes(8), struct.pack("<Q", 1 << 63)]),
            )
        )
    end = data.draw(st.integers(0, len(head)))
    for size in (len(head), None):
        try:
            header = parse_header(lambda at, n: bytes(head[:end][at : at + n]), "x", size)
        except GGUFError as exc:
            assert exc.hint
        else:
            facts(header)


def facts(header: GGUFHeader) -> tuple[object, ...]:
    """Every property once: none may fail, whatever the metadata holds."""
    return (
        header.role,
        header.has_heads,
        header.context_length,
        header.split_count,
        header.split_no,
        header.chat_template,
        header.recurrent,
        header.unknown_types,
        header.parameter_count,
        header.weights_bytes,
        header.kv_bytes_per_token(4096),
        hash(header),
    )


SMALL_TARGET = TARGET.read_bytes()[:200_000]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_noise_is_refused(noise: bytes) -> None:
    for data in (noise, b"GGUF" + noise, b"GGUF\x03\0\0\0" + noise):
        try:
            facts(parsed(data))
        except GGUFError as exc:
            assert "\n" not in exc.message
