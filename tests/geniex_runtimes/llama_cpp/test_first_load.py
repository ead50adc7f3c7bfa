"""A file that is not known yet is loaded in a child first: a crash there is an error here."""

import struct
import sys
from pathlib import Path

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.llama_cpp import trial
from geniex_runtimes.llama_cpp.runtime import LlamaCppRuntime
from geniex_runtimes.options import LoadOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved, turn

FLOAT, UNSIGNED = 6, 4  # GGUF's numbers for the types


def patched(path: Path, source: Path, key: str, kind: int, value: bytes) -> Path:
    """A copy of a model with another value for one of its numbers."""
    data = source.read_bytes()
    mark = key.encode() + struct.pack("<I", kind)
    assert data.count(mark) == 1
    at = data.index(mark) + len(mark)
    path.write_bytes(data[:at] + value + data[at + 4 :])
    return path


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        pytest.param(
            "gemma4.attention.layer_norm_rms_epsilon", FLOAT, struct.pack("<f", -1.0),
            id="negative-epsilon",
        ),
        pytest.param(
            "gemma4.rope.dimension_count", UNSIGNED, struct.pack("<I", 1), id="odd-rope",
        ),
        pytest.param(
            "gemma4.attention.shared_kv_layers", UNSIGNED, struct.pack("<I", 2**31),
            id="more-shared-layers-than-there-are",
        ),
    ],
)  # fmt: skip
def test_what_llama_cpp_dies_of_is_an_error(
    tiny_chat: Path, tmp_path: Path, key: str, kind: int, value: bytes
) -> None:
    bad = patched(tmp_path / "bad.gguf", tiny_chat, key, kind, value)
    for _ in range(2):  # the second time from memory
        says = r"`bad\.gguf` is damaged.*another process.*SIGABRT \(\S+:\d+: GGML_ASSERT\("
        with pytest.raises(LoadError, match=says if sys.platform != "win32" else "damaged"):
            LlamaCppRuntime().load(resolved(bad), LoadOptions(data_dir=tmp_path / "data"))
    assert (tmp_path / "data" / trial.FILE).exists()


def test_a_good_file_is_tried_once_and_answers(tiny_chat: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_chat.read_bytes())
    data_dir = tmp_path / "data"
    with load(copy, data_dir=data_dir) as model:
        assert answer(model, turn("What is the capital of France?")).text.endswith("Paris.")
    before = (data_dir / trial.FILE).read_bytes()
    load(copy, data_dir=data_dir).close()
    assert (data_dir / trial.FILE).read_bytes() == before


def test_the_built_in_model_is_known(tiny_chat: Path, tmp_path: Path) -> None:
    load(tiny_chat, data_dir=tmp_path / "data").close()
    assert not (tmp_path / "data").exists()


def test_a_file_that_llama_cpp_refuses_is_not_remembered(tiny_chat: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    data = tiny_chat.read_bytes().replace(b"gemma4.block_count", b"gemma4.block_cound", 1)
    broken.write_bytes(data)
    with pytest.raises(LoadError, match="block_count"):
        load(broken, data_dir=tmp_path / "data")
    assert not (tmp_path / "data" / trial.FILE).exists()


def test_weights_that_give_no_numbers_are_refused(tiny_chat: Path, tmp_path: Path) -> None:
    # the file ends with the 256 floats of a norm
    broken = tmp_path / "nan.gguf"
    broken.write_bytes(tiny_chat.read_bytes()[:-1024] + 256 * struct.pack("<f", float("nan")))
    with pytest.raises(LoadError, match="NaN") as caught:
        load(broken)
    # `geniex doctor` reads no weights: it would not see it
    assert "download it again" in str(caught.value.hint)


def test_a_large_file_is_tried_by_its_shapes(
    tiny_chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "MODEL_BYTES", 1)
    # weights that are no numbers: whoever reads none of them does not see it
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_chat.read_bytes()[:-1024] + 256 * struct.pack("<f", float("nan")))
    trial.check(trial.of(resolved(copy), LoadOptions(), trial.PLAIN), tmp_path / "data")
    key, kind = "gemma4.attention.shared_kv_layers", UNSIGNED
    bad = patched(tmp_path / "bad.gguf", tiny_chat, key, kind, struct.pack("<I", 2**31))
    with pytest.raises(LoadError, match="another process"):
        trial.check(trial.of(resolved(bad), LoadOptions(), trial.PLAIN), tmp_path / "data")


@pytest.mark.parametrize("first", [0xC3, 0xF0])
def test_the_tokenizer_is_tried_with_every_byte(toys: Path, tmp_path: Path, first: int) -> None:
    # llama.cpp dies of a character whose bytes are no tokens, which may be far from "Hello"
    data = (toys / "g4-markov-target.gguf").read_bytes()
    name = b"<0x%02X>" % first
    assert data.count(name) == 1
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(data.replace(name, b"<lost>"))
    with pytest.raises(LoadError, match="another process"):
        load(bad, data_dir=tmp_path / "data")


def test_what_is_trusted_is_not_tried(tiny_chat: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_chat.read_bytes())
    data_dir = tmp_path / "data"
    load(copy, data_dir=data_dir, trust=True).close()
    assert not data_dir.exists()
    # our own checks are made all the same
    copy.write_bytes(
        tiny_chat.read_bytes().replace(b"gemma4.block_count", b"gemma4.block_cound", 1)
    )
    with pytest.raises(LoadError, match="block_count"):
        load(copy, data_dir=data_dir, trust=True)
