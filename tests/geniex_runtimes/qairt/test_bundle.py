"""Reading a bundle: what its files say, and one clear error for each way they can be wrong."""

import os
import sys
from pathlib import Path

import pytest

from geniex_catalogue.errors import BundleError
from geniex_runtimes.errors import BundleTargetError
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.bundle_json import MAX_JSON
from tests.geniex_runtimes.qairt.plain_bundle import (
    Change,
    as_folder,
    content,
    gone,
    put,
    write,
)
from tests.qairt_bundles import QairtBundles

GENIE, META, EXT, TOKENIZER = "genie_config.json", "metadata.json", "htp.json", "tokenizer.json"
BINS = "dialog.engine.model.binary.ctx-bins"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "plain")


def text_generator(folder: Path) -> None:
    (folder / "text-generator.json").write_text("{}", encoding="utf-8")


def test_what_a_whole_bundle_says(folder: Path) -> None:
    bundle = read_bundle(folder)
    assert bundle.shards == (folder / "b.bin", folder / "a.bin")
    assert (bundle.tokenizer, bundle.extensions) == (folder / TOKENIZER, folder / EXT)
    assert (bundle.model_id, bundle.precision, bundle.qairt_version) == ("plain", "w4a16", "2.45.0")
    assert (bundle.chipset, bundle.soc_model, bundle.htp_arch) == (
        "qualcomm-snapdragon-x-elite",
        60,
        73,
    )
    assert (bundle.context_length, bundle.context_lengths) == (64, (64, 512, 2048, 4096))
    assert [(one.width, one.part, one.parts) for one in bundle.graphs] == [(128, 1, 2), (1, 2, 2)]
    assert (bundle.vocab_size, bundle.bos_id, bundle.eos_ids, bundle.pad_id) == (6, 0, (1, 3), None)
    assert bundle.sampling == SamplingOptions(temperature=0.8, top_k=40, top_p=0.95)
    assert (bundle.bos_token, bundle.eos_token) == ("<s>", "</s>")
    assert bundle.end_tokens == {"</s>", "<end>"}
    assert bundle.control_tokens == {"<s>", "</s>", "<end>"}
    assert (bundle.chat_template, bundle.vision) == ("of the tokenizer", False)
    named = (GENIE, TOKENIZER, EXT, "a.bin", "b.bin")
    assert bundle.size == sum((folder / name).stat().st_size for name in named)
    assert bundle.config["dialog"]["context"]["size"] == 64


def test_what_may_be_left_out(folder: Path) -> None:
    for name in (META, "tokenizer_config.json", EXT):
        (folder / name).unlink()
    for path in ("engine.backend.extensions", "sampler", "context.bos-token"):
        put(GENIE, f"dialog.{path}", ...)(folder)
    put(TOKENIZER, "added_tokens", ...)(folder)
    bundle = read_bundle(folder)
    assert bundle.model_id == "plain"  # the folder's name
    assert (bundle.extensions, bundle.htp_arch, bundle.qairt_version) == (None, None, None)
    assert (bundle.bos_id, bundle.chat_template) == (None, None)
    assert (bundle.sampling, bundle.graphs) == (SamplingOptions(), ())
    assert (bundle.context_lengths, bundle.control_tokens) == ((64,), frozenset({"<end>"}))


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        pytest.param(put(GENIE, "dialog.context.eos-token", 3), "eos_ids", (3,), id="one eos"),
        pytest.param(
            put(GENIE, "dialog.context.eos-token", 1), "end_tokens", {"</s>"}, id="eos is special"
        ),
        pytest.param(put(GENIE, "dialog.context.eos-token", 5), "eos_token", "", id="eos unknown"),
        pytest.param(put(GENIE, "dialog.context.bos-token", -1), "bos_id", None, id="no bos"),
        pytest.param(put(GENIE, "dialog.context.pad-token", 5), "pad_id", 5, id="padding"),
        pytest.param(
            put(META, "model_files", {"x_part1_of_4.bin": {}}), "graphs", (), id="keyed by file"
        ),
        pytest.param(
            put(META, "model_files", {"vision_encoder.bin": {}}), "vision", True, id="vision file"
        ),
        pytest.param(put(META, "genie.supports_vision", True), "vision", True, id="vision flag"),
        pytest.param(
            put(META, "genie.chat_template", "of the metadata"),
            "chat_template",
            "of the metadata",
            id="template of the metadata",
        ),
        pytest.param(
            put(META, "genie.chat_template", {"user_prefix": "Q: "}),
            "chat_template",
            "of the tokenizer",
            id="a table says less than a template",
        ),
        pytest.param(
            put(GENIE, "dialog.engine.backend.extensions", ...), "htp_arch", 73, id="by metadata"
        ),
        pytest.param(
            put(
                "tokenizer_config.json",
                "chat_template",
                [{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}],
            ),
            "chat_template",
            "yes",
            id="templates by name",
        ),
        pytest.param(
            put(GENIE, "dialog.sampler.token-penalty", {"repetition-penalty": 1.2}),
            "sampling",
            SamplingOptions(temperature=0.8, top_k=40, top_p=0.95, repetition_penalty=1.2),
            id="penalty",
        ),
        pytest.param(
            put(EXT, "devices", [{"soc_id": 69, "dsp_arch": "V73"}]), "soc_model", 69, id="soc_id"
        ),
        pytest.param(put(EXT, "devices", []), "htp_arch", 73, id="no device"),
        pytest.param(put(META, "chipset_attributes", ...), "chipset", None, id="no chipset"),
        pytest.param(content("a.bin", b"x" * 7), "model_id", "plain", id="any bytes"),
        pytest.param(put(GENIE, BINS, ["./a.bin"]), "context_length", 64, id="dot slash"),
    ],
)
def test_forms_that_differ(folder: Path, change: Change, field: str, value: object) -> None:
    change(folder)
    assert getattr(read_bundle(folder), field) == value


def test_a_template_of_its_own(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    (folder / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    assert read_bundle(folder).chat_template == "{{ messages }}"


@pytest.mark.parametrize("change", [put(META, "genie.supports_vision", True), text_generator])
def test_a_bundle_for_images(folder: Path, change: Change) -> None:
    change(folder)
    (folder / GENIE).unlink()
    with pytest.raises(BundleTargetError, match="a runtime for images; here is a runtime for text"):
        read_bundle(folder)


DAMAGE = {
    "no config": (gone(GENIE), GENIE, "is missing"),
    "empty config": (content(GENIE, b""), GENIE, "is empty"),
    "cut config": (content(GENIE, b'{"dialog": {'), GENIE, "is not JSON"),
    "config of bytes": (content(GENIE, b"\xff\xfe\x00"), GENIE, "is not JSON"),
    "config is a list": (content(GENIE, b"[]"), GENIE, "is not a JSON object"),
    "a constant": (content(GENIE, b'{"dialog": NaN}'), GENIE, "NaN is no JSON number"),
    "deep": (content(GENIE, b'{"a":' * 99 + b"1" + b"}" * 99), GENIE, "deeper than 64 levels"),
    "very deep": (content(GENIE, b"[" * 200_000), GENIE, "is not JSON: too deep"),
    "huge": (content(GENIE, b" " * (MAX_JSON + 1)), GENIE, "is larger than 16 MiB"),
    "no dialog": (
        content(GENIE, b'{"text-generator": {}, "image-encoder": {}}'),
        GENIE,
        "has no `dialog`, only `image-encoder`, `text-generator`: it describes no text model",
    ),
    "dialog is text": (put(GENIE, "dialog", "x"), GENIE, "`dialog` is not an object"),
    "another back end": (
        put(GENIE, "dialog.engine.backend.type", "QnnGpu"),
        GENIE,
        "`dialog.engine.backend.type` is 'QnnGpu'; only `QnnHtp`, the NPU, is supported",
    ),
    "another model type": (
        put(GENIE, "dialog.engine.model.type", "library"),
        GENIE,
        "`dialog.engine.model.type` is 'library'; only `binary` runs on the NPU",
    ),
    "no shards": (put(GENIE, BINS, ...), GENIE, f"`{BINS}` is missing or empty"),
    "shards are text": (put(GENIE, BINS, "a.bin"), GENIE, "is not a list of texts"),
    "a shard is a number": (put(GENIE, BINS, ["a.bin", 1]), GENIE, "is not a list of texts"),
    "a shard twice": (put(GENIE, BINS, ["a.bin", "a.bin"]), GENIE, "names a file twice"),
    "many shards": (put(GENIE, BINS, ["a.bin"] * 257), GENIE, "has 257 items, more than 256"),
    "missing shard": (gone("a.bin"), GENIE, f"`{BINS}` names 'a.bin', which is missing"),
    "empty shard": (content("a.bin", b""), GENIE, "names 'a.bin', which is empty"),
    "shard outside": (
        put(GENIE, BINS, ["../plain/a.bin"]),
        GENIE,
        "names '../plain/a.bin', which is no file name inside the folder",
    ),
    "absolute shard": (put(GENIE, BINS, ["/etc/passwd"]), GENIE, "no file name inside the folder"),
    "shard of a drive": (put(GENIE, BINS, ["C:/a.bin"]), GENIE, "no file name inside the folder"),
    "shard with a backslash": (put(GENIE, BINS, ["..\\a.bin"]), GENIE, "no file name inside"),
    "shard with a NUL": (put(GENIE, BINS, ["a\0.bin"]), GENIE, "no file name inside"),
    "shard of half a character": (put(GENIE, BINS, ["\ud800.bin"]), GENIE, "names '\\ud800.bin'"),
    "shard with an endless name": (put(GENIE, BINS, ["x" * 5000]), GENIE, "no file name inside"),
    "shard is a folder": (
        as_folder("a.bin"),
        GENIE,
        "names 'a.bin', which is no regular file",
    ),
    "no tokenizer": (gone(TOKENIZER), GENIE, "names 'tokenizer.json', which is missing"),
    "no tokenizer named": (
        put(GENIE, "dialog.tokenizer.path", ...),
        GENIE,
        "`dialog.tokenizer.path` is missing",
    ),
    "tokenizer without a model": (put(TOKENIZER, "model", ...), TOKENIZER, "this is no tokenizer"),
    "token without an id": (
        put(TOKENIZER, "added_tokens.0.id", ...),
        TOKENIZER,
        "`added_tokens[0].id` or `content` is missing",
    ),
    "no settings": (gone(EXT), GENIE, "names 'htp.json', which is missing"),
    "settings of another kind": (
        put(EXT, "devices", {"a": 1}),
        EXT,
        "`devices` is not a list of objects",
    ),
    "odd architecture": (
        put(EXT, "devices.0.dsp_arch", "hexagon"),
        EXT,
        "`devices[0].dsp_arch` is 'hexagon', not an architecture such as `v73`",
    ),
    "no context": (put(GENIE, "dialog.context", ...), GENIE, "`dialog.context.size` is missing"),
    "context of nothing": (
        put(GENIE, "dialog.context.size", 0),
        GENIE,
        "`dialog.context.size` is 0, not from 1 to 16777216",
    ),
    "context is true": (put(GENIE, "dialog.context.size", True), GENIE, "is not a whole number"),
    "context is half": (put(GENIE, "dialog.context.size", 64.5), GENIE, "is not a whole number"),
    "no vocabulary": (
        put(GENIE, "dialog.context.n-vocab", ...),
        GENIE,
        "`dialog.context.n-vocab` is missing",
    ),
    "eos is text": (
        put(GENIE, "dialog.context.eos-token", ["</s>"]),
        GENIE,
        "`dialog.context.eos-token` is not a whole number",
    ),
    "no eos": (
        put(GENIE, "dialog.context.eos-token", []),
        GENIE,
        "`dialog.context.eos-token` names no token: no answer would end",
    ),
    "eos of none": (put(GENIE, "dialog.context.eos-token", -1), GENIE, "names no token"),
    "eos left out": (put(GENIE, "dialog.context.eos-token", ...), GENIE, "names no token"),
    "bos beyond": (
        put(GENIE, "dialog.context.bos-token", 99999),
        GENIE,
        "`dialog.context.bos-token` is 99999, which is not among the 6 tokens of `n-vocab`",
    ),
    "eos beyond": (
        put(GENIE, "dialog.context.eos-token", [1, 6]),
        GENIE,
        "`dialog.context.eos-token` is 6, which is not among the 6 tokens",
    ),
    "padding beyond": (
        put(GENIE, "dialog.context.pad-token", 7),
        GENIE,
        "`dialog.context.pad-token` is 7, which is not among the 6 tokens",
    ),
    "a dialog that drafts": (
        put(GENIE, "dialog.type", "spd"),
        GENIE,
        "`dialog.type` is 'spd'; only `basic` is supported",
    ),
    "metadata of another Hexagon": (
        put(META, "chipset_attributes.htp_version", 81),
        META,
        "`chipset_attributes.htp_version` is 81, and `htp.json` is for HTP v73",
    ),
    "hot": (
        put(GENIE, "dialog.sampler.temp", 1e9),
        GENIE,
        "`dialog.sampler.temp` is 1000000000.0, not from 0 to 100",
    ),
    "temperature of text": (
        put(GENIE, "dialog.sampler.temp", "warm"),
        GENIE,
        "`dialog.sampler.temp` is not a number",
    ),
    "infinite": (
        put(GENIE, "dialog.sampler.temp", 10**400),
        GENIE,
        "`dialog.sampler.temp` is 1000000000",
    ),
    "corrupt metadata": (content(META, b"{]"), META, "is not JSON"),
    "metadata of another kind": (
        put(META, "model_files", []),
        META,
        "`model_files` is not an object",
    ),
    "precision is a list": (put(META, "precision", ["w4"]), META, "`precision` is not text"),
    "lengths of text": (
        put(META, "genie.context_lengths", ["long"]),
        META,
        "`genie.context_lengths` is not a whole number",
    ),
    "prefix is a number": (
        put(META, "genie.chat_template", {"user_prefix": 1}),
        META,
        "`genie.chat_template.user_prefix` is not text",
    ),
    "template is a number": (
        put(META, "genie.chat_template", 7),
        META,
        "`genie.chat_template` is not text",
    ),
    "corrupt tokenizer config": (
        content("tokenizer_config.json", b"nothing"),
        "tokenizer_config.json",
        "is not JSON",
    ),
}


@pytest.mark.parametrize(("change", "file", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_one_clear_error(folder: Path, change: Change, file: str, reason: str) -> None:
    change(folder)
    with pytest.raises(BundleError) as caught:
        read_bundle(folder)
    assert caught.value.file == folder / file
    assert reason in caught.value.message
    assert caught.value.message.startswith(f"`{folder / file}` ")
    assert caught.value.hint


@POSIX
def test_a_link_that_leads_out(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    (folder / "a.bin").replace(outside)
    (folder / "a.bin").symlink_to(outside)
    with pytest.raises(BundleError, match="a link that leads out of the folder") as caught:
        read_bundle(folder)
    assert "geniex pull" in str(caught.value.hint)


@POSIX
def test_a_link_to_itself(folder: Path) -> None:
    (folder / "a.bin").unlink()
    (folder / "a.bin").symlink_to("a.bin")
    with pytest.raises(BundleError, match=r"names 'a\.bin', which"):
        read_bundle(folder)


@POSIX
def test_a_link_inside_is_a_name(folder: Path) -> None:
    (folder / "a.bin").replace(folder / "real.bin")
    (folder / "a.bin").symlink_to("real.bin")
    assert read_bundle(folder).shards[1] == folder / "a.bin"


@POSIX
@pytest.mark.parametrize("file", [META, "a.bin", GENIE])
def test_a_pipe_holds_nobody_up(folder: Path, file: str) -> None:
    (folder / file).unlink()
    os.mkfifo(folder / file)
    with pytest.raises(BundleError, match="regular file"):
        read_bundle(folder)


def test_the_project_s_own_bundle(qairt_bundles: QairtBundles) -> None:
    bundle = read_bundle(qairt_bundles.folder(arch=79, parts=2))
    assert (bundle.htp_arch, len(bundle.shards), bundle.context_lengths) == (79, 2, (64,))
    assert [graph.name for graph in bundle.graphs] == [
        "prompt_ar16_cl64_1_of_2",
        "token_ar1_cl64_1_of_2",
        "prompt_ar16_cl64_2_of_2",
        "token_ar1_cl64_2_of_2",
    ]
    assert bundle.bos_token == "<|bos|>"
    assert bundle.end_tokens == {"<|eos|>", "<|im_end|>"}
    assert bundle.chat_template is not None
