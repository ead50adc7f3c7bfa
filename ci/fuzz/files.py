"""Targets that read files: GGUF headers, manifests, bundles, zips, messages of workers."""

import io
import json
import os
import random
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci.damage.cases import ALL, BUILTIN
from ci.damage.kinds import FILE
from ci.fuzz.target import Check, Target, always, expect
from geniex_catalogue import manifest
from geniex_catalogue.errors import GenieXError, GGUFError, ManifestError, ModelFileError
from geniex_catalogue.gguf import GGUFHeader, join_shards, parse_header
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import memory

_BUNDLE_FILES = ("genie_config.json", "metadata.json", "tokenizer.json", "tokenizer_config.json")


def _gguf(data: bytes) -> None:
    """A first byte of 255 and a seed: a damaged model; else the bytes of a file."""
    if data[:1] == b"\xff" and len(data) < 12:
        rng = random.Random(data)
        data = next(iter(ALL[rng.choice(list(ALL))](rng, BUILTIN.read_bytes()).values()))
    for size in (len(data), None):
        try:
            header = parse_header(lambda at, length: data[at : at + length], FILE, size)
        except GGUFError as exc:
            expect(exc.message.isprintable(), f"not printable: {exc.message!r}")
            expect(len(exc.message) < 5000, "a message without end")
            continue
        _use(join_shards([header]))


def _use(header: GGUFHeader) -> None:
    """All that is asked of a header before a load."""
    for name in (
        *("architecture", "file_type", "context_length", "block_count", "split_count", "split_no"),
        *("chat_template", "nextn_layers", "has_heads", "parameter_count", "weights_bytes"),
        *("unknown_types", "recurrent", "role"),
    ):
        getattr(header, name)
    model = ResolvedModel("x", None, "gguf", Path(FILE), (Path(FILE),), None, 1, header)
    for length in (1, 4096, 10**9):
        expect(header.kv_bytes_per_token(length) >= 0, "a negative size")
        expect(memory.need(model, length).total >= 0, "a negative need")
    memory.default_context(model, 1 << 30)
    memory.largest_context(model, 1 << 30)


def _manifest(data: bytes) -> None:
    try:
        found = manifest.parse(data)
    except ManifestError as exc:
        expect(len(exc.message) < 5000, "a message without end")
        return
    folder = Path("/store/models/org/repo")
    for record in found.files():
        expect((folder / record.name).resolve().is_relative_to(folder), record.name)
    again = manifest.parse(found.to_json().encode())
    expect(list(again.files()) == list(found.files()), "it is not what it writes")


@contextmanager
def _open_bundle() -> Iterator[Check]:
    from geniex_runtimes.qairt.bundle import read_bundle
    from tests.geniex_runtimes.qairt import plain_bundle

    with tempfile.TemporaryDirectory() as folder:
        plain = plain_bundle.write(Path(folder) / "plain")
        good = {name: (plain / name).read_bytes() for name in _BUNDLE_FILES}

        def check(data: bytes) -> None:
            """The first byte says which of the files the rest is."""
            name = _BUNDLE_FILES[(data[0] if data else 0) % len(_BUNDLE_FILES)]
            (plain / name).write_bytes(data[1:])
            try:
                read_bundle(plain)
            except GenieXError as exc:
                expect(len(exc.message) < 5000, "a message without end")
            finally:
                (plain / name).write_bytes(good[name])

        yield check


def _bundle_seeds() -> list[bytes]:
    from tests.geniex_runtimes.qairt import plain_bundle

    whole = (
        *(plain_bundle.CONFIG, plain_bundle.METADATA),
        *(plain_bundle.TOKENIZER, plain_bundle.TOKENIZER_CONFIG),
    )
    return [bytes([at]) + json.dumps(value).encode() for at, value in enumerate(whole)]


@contextmanager
def _open_zip() -> Iterator[Check]:
    from geniex_catalogue.hubs.archive import Archive

    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "bundle.zip", Path(folder) / "out"

        def check(data: bytes) -> None:
            path.write_bytes(data)
            out.mkdir()
            try:
                with Archive(path) as archive:
                    for number, (name, entry) in enumerate(archive.members.items()):
                        target = (out / name).resolve()
                        expect(target.is_relative_to(out), f"{name} is outside")
                        if entry.file_size < 1 << 20:
                            archive.extract(name, out / str(number), lambda _: None)
            except ModelFileError as exc:
                expect(len(exc.message) < 5000, "a message without end")
            finally:
                shutil.rmtree(out)

        yield check


def _zip_seeds() -> list[bytes]:
    found = []
    for packing in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", packing) as archive:
            for name in ("metadata.json", "genie_config.json", "a/model.bin", "é.txt"):
                archive.writestr(f"bundle/{name}", b'{"a": 1}' * 20)
            archive.writestr("bundle/sub/", b"")
        found.append(file.getvalue())
    return found


def _message(data: bytes) -> None:
    from geniex_runtimes.qairt.protocol import WIRE
    from geniex_runtimes.workers.wire import ProtocolError

    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        os.write(writing, data[:60_000])
        os.close(writing)
        try:
            for message in WIRE.messages(pipe.fileno()):
                WIRE.pack(message)
        except ProtocolError as exc:
            expect(len(str(exc)) < 5000, "a message without end")


def _message_seeds() -> list[bytes]:
    from geniex_runtimes.options import SamplingOptions
    from geniex_runtimes.qairt.protocol import WIRE, Failed, Generate, Load, Piece

    load = Load(Path("/a"), "genie", False)
    generate = Generate(1, (1, 2), SamplingOptions(logit_bias=((1, 2.0),)), 9, ("x",), None)
    return [
        WIRE.pack(load) + WIRE.pack(generate),
        WIRE.pack(Piece(1, "text")) + WIRE.pack(Failed("load", "no", "why", 3)),
    ]


def _small_gguf() -> bytes:
    """The built-in model's header, with a short vocabulary."""
    from tests.ggufwriter import build, entry, tensor

    facts: dict[str, object] = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.embedding_length": 64,
        "llama.context_length": 128,
        "llama.attention.head_count": 4,
        "tokenizer.ggml.tokens": ["a", "b"],
        "tokenizer.chat_template": "{{ messages }}",
    }
    names = ["token_embd.weight", "blk.0.attn_q.weight", "blk.1.ffn_up.weight"]
    tensors = [tensor(name, [8, 4], 0, 128 * at) for at, name in enumerate(names)]
    return build([entry(key, value) for key, value in facts.items()], tensors, 384)


FILES = (
    Target(
        "gguf",
        always(_gguf),
        lambda: [_small_gguf(), b"\xff\0\0\0\0", b"GGUF\3\0\0\0" + bytes(16)],
        (b"GGUF", b"split.count", b"general.alignment", b"\x09\0\0\0", b"\x08\0\0\0", b"llama."),
    ),
    Target(
        "manifests",
        always(_manifest),
        lambda: [
            manifest.Manifest(
                "org/repo",
                "gguf",
                {"Q8_0": manifest.FileRecord("a/b.gguf", 10, sha256="0" * 64, revision="main")},
                (manifest.FileRecord("c.gguf", 3, precision="Q8_0", place=Path("/x/c.gguf")),),
            )
            .to_json()
            .encode()
        ],
        (b"../", b"\\\\x", b'"Name"', b"null", b"-1", b"1e99", b"con", b"geniex.json", b"\\u0000"),
        form="json",
    ),
    Target("bundles", _open_bundle, _bundle_seeds, (b"../", b"\xff", b"null"), "json", 1),
    Target("zips", _open_zip, _zip_seeds, (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"../", b"\\", b"/")),
    Target("messages", always(_message), _message_seeds, (b"\0\0\0\4", b"[", b'"Load"', b"{}")),
)
