"""File sets: what of a listing can be run, and which file a selector means."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import (
    AmbiguousModelError,
    GenieXError,
    GGUFError,
    IncompleteShardsError,
    ModelNotFoundError,
    PrecisionNotFoundError,
)
from geniex_catalogue.fileset import FileSet, ModelFile, Variant, group
from geniex_catalogue.gguf import GGUFHeader, TensorInfo
from geniex_catalogue.names import parse

Facts = Mapping[str, str | int]

MODEL: Facts = {"general.architecture": "llama"}
DRAFT: Facts = {"general.architecture": "gemma4-assistant"}
EAGLE: Facts = {"general.architecture": "eagle3"}
PROJECTOR: Facts = {"general.architecture": "clip", "general.type": "mmproj"}
EMBEDDING: Facts = {"general.architecture": "bert"}
ADAPTER: Facts = {"general.architecture": "llama", "general.type": "adapter"}
HEADS: Facts = {
    "general.architecture": "qwen35",
    "qwen35.block_count": 3,
    "qwen35.nextn_predict_layers": 1,
}


def part(number: int, count: int, facts: Facts | None = None) -> Facts:
    return {**(facts or {}), "split.no": number - 1, "split.count": count}


def header(facts: Facts) -> GGUFHeader:
    names = ["token_embd.weight", "blk.0.attn_norm.weight", "blk.2.nextn.eh_proj.weight"]
    if facts.get("split.no"):
        names = [f"blk.{facts['split.no']}.ffn_norm.weight"]
    tensors = tuple(TensorInfo(name, (32,), 0, 0) for name in names)
    return GGUFHeader(3, dict(facts), tensors, None)


def listing(text: str) -> FileSet:
    return group(ModelFile(name, 1) for name in text.split())


def with_headers(files: Mapping[str, Facts]) -> FileSet:
    return group(ModelFile(name, 1, header=header(facts)) for name, facts in files.items())


def choose(files: FileSet, selector: str) -> str:
    """The entry point that `org/repo<selector>` means."""
    ref = parse(f"org/repo{selector}")
    return files.choose(ref.precision, ref.file, ref.name).name


ALL = "X-F16.gguf X-Q2_K.gguf X-Q4_0.gguf X-Q4_K_M.gguf X-Q6_K.gguf X-Q8_0.gguf"
MTP = "X-Q6_K.gguf X-MTP-Q6_K.gguf X-Q4_K_M.gguf"
UNSLOTH = (
    "BF16/X-BF16-00001-of-00002.gguf BF16/X-BF16-00002-of-00002.gguf MTP/mtp-X-Q4_0.gguf "
    "X-UD-Q4_K_XL.gguf X-Q4_K_M.gguf mmproj-F16.gguf mmproj-BF16.gguf mmproj-F32.gguf "
    "imatrix_unsloth.gguf README.md config.json"
)
SPLIT = "X-Q4_0-00001-of-00003.gguf X-Q4_0-00002-of-00003.gguf X-Q4_0-00003-of-00003.gguf"
FOLDERS = (
    "Q4_K_M/X-00001-of-00002.gguf Q4_K_M/X-00002-of-00002.gguf "
    "Q8_0/X-00001-of-00002.gguf Q8_0/X-00002-of-00002.gguf"
)

# listing, selector, entry point
CHOSEN = {
    "one-file": ("model-Q4_0.gguf", "", "model-Q4_0.gguf"),
    "one-file-label": ("model-Q4_0.gguf", ":Q4_0", "model-Q4_0.gguf"),
    "one-file-label-lower": ("model-Q4_0.gguf", ":q4_0", "model-Q4_0.gguf"),
    "lower-case-file": ("model-q4_k_m.gguf", ":Q4_K_M", "model-q4_k_m.gguf"),
    "upper-case-ending": ("MODEL-Q4_0.GGUF", ":Q4_0", "MODEL-Q4_0.GGUF"),
    "dots": ("model.Q5_K_S.gguf", ":Q5_K_S", "model.Q5_K_S.gguf"),
    "i1": ("model.i1-Q4_K_M.gguf", ":Q4_K_M", "model.i1-Q4_K_M.gguf"),
    "i1-asked": ("model.i1-Q4_K_M.gguf", ":i1-Q4_K_M", "model.i1-Q4_K_M.gguf"),
    "odd-q8": ("model-Q8.gguf", ":Q8", "model-Q8.gguf"),
    "fp16-asked": ("model-f16.gguf", ":FP16", "model-f16.gguf"),
    "f16-asked": ("model-fp16.gguf", ":F16", "model-fp16.gguf"),
    # without a precision: Q4_0, Q4_K_M, Q8_0, then the rest
    "bare-q4_0": (ALL, "", "X-Q4_0.gguf"),
    "bare-q4_k_m": (ALL.replace("X-Q4_0.gguf", ""), "", "X-Q4_K_M.gguf"),
    "bare-q8_0": ("X-F16.gguf X-Q6_K.gguf X-Q8_0.gguf X-Q5_K_M.gguf", "", "X-Q8_0.gguf"),
    "bare-rest": ("X-F16.gguf X-Q2_K.gguf X-Q6_K.gguf X-IQ1_S.gguf", "", "X-Q6_K.gguf"),
    "bare-float": ("X-F32.gguf X-BF16.gguf", "", "X-BF16.gguf"),
    "bare-unlabelled": ("X.gguf", "", "X.gguf"),
    "bare-labelled-first": ("X.gguf X-Q4_0.gguf", "", "X-Q4_0.gguf"),
    "all-f16": (ALL, ":F16", "X-F16.gguf"),
    "all-q2": (ALL, ":q2_k", "X-Q2_K.gguf"),
    # no label
    "default": ("odd name".replace(" ", "-") + ".gguf", ":DEFAULT", "odd-name.gguf"),
    "default-beside-labelled": ("X.gguf X-Q4_0.gguf", ":default", "X.gguf"),
    "fp8-is-no-label": ("model-fp8.gguf", ":DEFAULT", "model-fp8.gguf"),
    "odd-by-file": ("odd.gguf other-Q4_0.gguf", ":odd.gguf", "odd.gguf"),
    # UD
    "ud": ("X-UD-Q4_K_XL.gguf X-Q4_K_XL.gguf", ":UD-Q4_K_XL", "X-UD-Q4_K_XL.gguf"),
    "ud-plain": ("X-UD-Q4_K_XL.gguf X-Q4_K_XL.gguf", ":Q4_K_XL", "X-Q4_K_XL.gguf"),
    "ud-unique": ("X-UD-Q4_K_XL.gguf X-Q4_K_M.gguf", ":Q4_K_XL", "X-UD-Q4_K_XL.gguf"),
    # split
    "split": (SPLIT, "", "X-Q4_0-00001-of-00003.gguf"),
    "split-label": (SPLIT, ":Q4_0", "X-Q4_0-00001-of-00003.gguf"),
    "split-by-later-part": (SPLIT, ":X-Q4_0-00002-of-00003.gguf", "X-Q4_0-00001-of-00003.gguf"),
    "split-of-one": ("X-Q4_0-00001-of-00001.gguf", ":Q4_0", "X-Q4_0-00001-of-00001.gguf"),
    "folders": (FOLDERS, "", "Q4_K_M/X-00001-of-00002.gguf"),
    "folders-label": (FOLDERS, ":q8_0", "Q8_0/X-00001-of-00002.gguf"),
    "folders-file": (
        FOLDERS,
        ":Q8_0/X-00001-of-00002.gguf",
        "Q8_0/X-00001-of-00002.gguf",
    ),
    "same-set-two-counts": (
        SPLIT + " Q8_0/X-00001-of-00001.gguf",
        ":Q8_0",
        "Q8_0/X-00001-of-00001.gguf",
    ),
    "no-split-number-zero": ("X-Q4_0-00000-of-00002.gguf", "", "X-Q4_0-00000-of-00002.gguf"),
    "no-split-beyond": ("X-Q4_0-00003-of-00002.gguf", "", "X-Q4_0-00003-of-00002.gguf"),
    "no-split-short-digits": ("X-Q4_0-1-of-2.gguf", "", "X-Q4_0-1-of-2.gguf"),
    "no-split-part": ("X-Q4_0-part1.gguf", ":Q4_0", "X-Q4_0-part1.gguf"),
    # files
    "file": (ALL, ":X-Q6_K.gguf", "X-Q6_K.gguf"),
    "file-other-case": (ALL, ":x-q6_k.GGUF", "X-Q6_K.gguf"),
    "file-exact-before-case": ("x-Q4_0.gguf X-Q4_0.gguf", ":x-Q4_0.gguf", "x-Q4_0.gguf"),
    "file-without-folder": ("Q8_0/y.gguf Q4_0/x.gguf", ":x.gguf", "Q4_0/x.gguf"),
    "file-exact-before-folder": ("a/x.gguf x.gguf", ":x.gguf", "x.gguf"),
    # companions by name
    "projector-aside": ("mmproj-X-Q4_0.gguf X-Q8_0.gguf", "", "X-Q8_0.gguf"),
    "projector-same-label": ("mmproj-F16.gguf X-F16.gguf", ":F16", "X-F16.gguf"),
    "projector-name-behind": (
        "gemma-4-E2B-it-mmproj.gguf gemma-4-E2B-q4_0-override.gguf",
        "",
        "gemma-4-E2B-q4_0-override.gguf",
    ),
    "projector-by-file": (UNSLOTH, ":mmproj-F16.gguf", "mmproj-F16.gguf"),
    "unsloth-bare": (UNSLOTH, "", "X-Q4_K_M.gguf"),
    "unsloth-split": (UNSLOTH, ":BF16", "BF16/X-BF16-00001-of-00002.gguf"),
    "unsloth-ud": (UNSLOTH, ":Q4_K_XL", "X-UD-Q4_K_XL.gguf"),
    "draft-by-file": (UNSLOTH, ":MTP/mtp-X-Q4_0.gguf", "MTP/mtp-X-Q4_0.gguf"),
    "draft-by-file-alone": (UNSLOTH, ":mtp-X-Q4_0.gguf", "MTP/mtp-X-Q4_0.gguf"),
    "drafts-alone": (
        "gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf README.md",
        ":Q4_0",
        "gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf",
    ),
    "draft-beside": (
        "mtp-gemma-4-12b-it.gguf gemma-4-12b-it-Q8_0.gguf",
        "",
        "gemma-4-12b-it-Q8_0.gguf",
    ),
    "draft-folder": ("MTP/G-Q8_0-MTP.gguf G-Q8_0.gguf", ":Q8_0", "G-Q8_0.gguf"),
    "dflash-draft": ("dflash-draft-3.6-q4_k_m.gguf X-Q4_K_M.gguf", ":Q4_K_M", "X-Q4_K_M.gguf"),
    "assistant-is-no-draft": ("my-assistant-7b-Q4_0.gguf", "", "my-assistant-7b-Q4_0.gguf"),
    "embedding-name": ("nomic-embed-text-v1.5.Q8_0.gguf", "", "nomic-embed-text-v1.5.Q8_0.gguf"),
    # a plain and an MTP build
    "mtp-label-is-plain": (MTP, ":Q6_K", "X-Q6_K.gguf"),
    "mtp-by-file": (MTP, ":X-MTP-Q6_K.gguf", "X-MTP-Q6_K.gguf"),
    "mtp-alone-is-a-model": ("X-MTP-Q6_K.gguf X-MTP-Q4_0.gguf", "", "X-MTP-Q4_0.gguf"),
    "mtp-behind": ("X-Q6_K-mtp.gguf X-Q6_K.gguf", ":Q6_K", "X-Q6_K.gguf"),
    "mtp-inside-a-word": ("Xmtp-Q6_K.gguf", ":Q6_K", "Xmtp-Q6_K.gguf"),
    # what does not matter
    "two-tokenizers": (
        "tokenizer.json sub/tokenizer.json X-Q4_0.gguf",
        "",
        "X-Q4_0.gguf",
    ),
    "safetensors": (
        "model-00001-of-00009.safetensors README.md X-Q4_0.gguf",
        "",
        "X-Q4_0.gguf",
    ),
    "hidden-files": ("._X-Q4_0.gguf .cache/Y-Q4_0.gguf X-Q4_0.gguf", ":Q4_0", "X-Q4_0.gguf"),
    "unfinished-files": ("X-Q4_0.gguf.progress Y-Q4_0.gguf.part X-Q4_0.gguf", "", "X-Q4_0.gguf"),
    "imatrix": ("X.imatrix.gguf X-imatrix.gguf X-Q4_0.gguf", "", "X-Q4_0.gguf"),
    "imatrix-suffix-is-a-model": ("X-Q4_0-imatrix.gguf", ":Q4_0", "X-Q4_0-imatrix.gguf"),
    "listed-twice": ("X-Q4_0.gguf X-Q4_0.gguf", ":Q4_0", "X-Q4_0.gguf"),
}


@pytest.mark.parametrize(
    ("files", "selector", "expected"), [pytest.param(*case, id=key) for key, case in CHOSEN.items()]
)
def test_a_selector_means_one_entry_point(files: str, selector: str, expected: str) -> None:
    assert choose(listing(files), selector) == expected


AMBIGUOUS = {
    "two-models": ("X-Q4_0.gguf Y-Q4_0.gguf", ":Q4_0", "X-Q4_0.gguf Y-Q4_0.gguf"),
    "two-models-bare": ("X-Q4_0.gguf Y-Q4_0.gguf Z-Q8_0.gguf", "", "X-Q4_0.gguf Y-Q4_0.gguf"),
    "two-cases": ("X-Q4_0.gguf X-q4_0.gguf", ":Q4_0", "X-Q4_0.gguf X-q4_0.gguf"),
    "i1-and-static": (
        "X.Q4_K_M.gguf X.i1-Q4_K_M.gguf",
        ":Q4_K_M",
        "X.Q4_K_M.gguf X.i1-Q4_K_M.gguf",
    ),
    "f16-and-fp16": ("X-F16.gguf X-fp16.gguf", ":F16", "X-F16.gguf X-fp16.gguf"),
    "two-folders": ("a/X-Q4_0.gguf b/X-Q4_0.gguf", ":Q4_0", "a/X-Q4_0.gguf b/X-Q4_0.gguf"),
    "two-folders-by-file": ("a/X.gguf b/X.gguf", ":X.gguf", "a/X.gguf b/X.gguf"),
    "two-unlabelled": ("X.gguf Y.gguf", "", "X.gguf Y.gguf"),
    "two-unlabelled-default": ("X.gguf Y.gguf Z-Q4_0.gguf", ":DEFAULT", "X.gguf Y.gguf"),
    "set-and-single": (SPLIT + " X-Q4_0.gguf", ":Q4_0", "X-Q4_0-00001-of-00003.gguf X-Q4_0.gguf"),
    "two-sets": (
        "Q4_0/X-00001-of-00001.gguf X-Q4_0-00001-of-00001.gguf",
        ":Q4_0",
        "Q4_0/X-00001-of-00001.gguf X-Q4_0-00001-of-00001.gguf",
    ),
    "two-plain-and-mtp": (
        "X-Q4_0.gguf Y-Q4_0.gguf X-MTP-Q4_0.gguf",
        ":Q4_0",
        "X-Q4_0.gguf Y-Q4_0.gguf",
    ),
    "two-mtp": ("X-MTP-Q4_0.gguf Y-MTP-Q4_0.gguf", ":Q4_0", "X-MTP-Q4_0.gguf Y-MTP-Q4_0.gguf"),
    "two-drafts": ("mtp-X-Q8_0.gguf mtp-Y-Q8_0.gguf", "", "mtp-X-Q8_0.gguf mtp-Y-Q8_0.gguf"),
}


@pytest.mark.parametrize(
    ("files", "selector", "names"), [pytest.param(*case, id=key) for key, case in AMBIGUOUS.items()]
)
def test_files_that_share_a_label_are_never_picked_silently(
    files: str, selector: str, names: str
) -> None:
    found = listing(files)
    with pytest.raises(AmbiguousModelError) as caught:
        choose(found, selector)

    assert set(names.split()) <= set(caught.value.candidates)
    assert all(name in caught.value.message for name in names.split())
    for name in names.split():
        assert choose(found, f":{name}") == name


MISSING_PRECISION = {
    "typo": (ALL, ":Q9_NOPE", "F16 Q2_K Q4_0 Q4_K_M Q6_K Q8_0"),
    "other": ("X-Q4_0.gguf X-Q8_0.gguf", ":Q5_K_M", "Q4_0 Q8_0"),
    "no-pattern": ("X-Q4_0.gguf X-Q4_K_M.gguf", ":Q4", "Q4_0 Q4_K_M"),
    "drafts-do-not-count": (UNSLOTH, ":Q4_0", "BF16 Q4_K_M UD-Q4_K_XL"),
    "projectors-do-not-count": (UNSLOTH, ":F32", "BF16 Q4_K_M UD-Q4_K_XL"),
    "unlabelled": ("X.gguf", ":Q4_0", "DEFAULT"),
    "default": ("X-Q4_0.gguf", ":DEFAULT", "Q4_0"),
    "ud-is-not-plain": ("X-Q4_K_M.gguf", ":UD-Q4_K_M", "Q4_K_M"),
}


@pytest.mark.parametrize(
    ("files", "selector", "labels"),
    [pytest.param(*case, id=key) for key, case in MISSING_PRECISION.items()],
)
def test_a_precision_that_no_file_has_lists_what_there_is(
    files: str, selector: str, labels: str
) -> None:
    with pytest.raises(PrecisionNotFoundError) as caught:
        choose(listing(files), selector)

    assert sorted(caught.value.available) == labels.split()
    assert caught.value.asked == selector[1:]
    assert "did you mean" in (caught.value.hint or "")


NOTHING = {
    "empty": ("", "", "no GGUF"),
    "readme": ("README.md config.json", ":Q4_0", "no GGUF"),
    "safetensors": ("model.safetensors config.json", "", "GGUF version"),
    "projector": ("mmproj-F16.gguf", "", "projector"),
    "no-such-file": ("X-Q4_0.gguf", ":X-Q8_0.gguf", "org/repo:X-Q4_0.gguf"),
    "imatrix-file": ("X.imatrix.gguf X-Q4_0.gguf", ":X.imatrix.gguf", "not a model"),
}


@pytest.mark.parametrize(
    ("files", "selector", "hint"), [pytest.param(*case, id=key) for key, case in NOTHING.items()]
)
def test_nothing_to_run_says_why(files: str, selector: str, hint: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        choose(listing(files), selector)

    assert "org/repo" in caught.value.message
    assert hint in (caught.value.hint or "")


INCOMPLETE = {
    "last": ("X-Q4_0-00001-of-00002.gguf", "", "X-Q4_0-00002-of-00002.gguf"),
    "first": ("X-Q4_0-00002-of-00002.gguf", ":Q4_0", "X-Q4_0-00001-of-00002.gguf"),
    "middle": (SPLIT.replace("X-Q4_0-00002-of-00003.gguf", ""), "", "X-Q4_0-00002-of-00003.gguf"),
    "two": (
        "d/X-00002-of-00003.gguf",
        ":DEFAULT",
        "d/X-00001-of-00003.gguf d/X-00003-of-00003.gguf",
    ),
    "parts-in-two-folders": (
        "a/X-Q4_0-00001-of-00002.gguf b/X-Q4_0-00002-of-00002.gguf",
        ":a/X-Q4_0-00001-of-00002.gguf",
        "a/X-Q4_0-00002-of-00002.gguf",
    ),
    "two-stems": (
        "X-Q4_0-00001-of-00002.gguf Y-Q4_0-00002-of-00002.gguf",
        ":X-Q4_0-00001-of-00002.gguf",
        "X-Q4_0-00002-of-00002.gguf",
    ),
    "two-counts": (
        "X-Q4_0-00001-of-00002.gguf X-Q4_0-00002-of-00003.gguf",
        ":X-Q4_0-00001-of-00002.gguf",
        "X-Q4_0-00002-of-00002.gguf",
    ),
    "asked-by-the-missing-part": (
        "X-Q4_0-00001-of-00002.gguf",
        ":X-Q4_0-00002-of-00002.gguf",
        "X-Q4_0-00002-of-00002.gguf",
    ),
    "upper-ending": ("X-Q4_0-00001-of-00002.GGUF", "", "X-Q4_0-00002-of-00002.GGUF"),
    "a-whole-one-beside": (
        "X-Q4_0-00001-of-00002.gguf X-Q8_0.gguf",
        ":Q4_0",
        "X-Q4_0-00002-of-00002.gguf",
    ),
}


@pytest.mark.parametrize(
    ("files", "selector", "missing"),
    [pytest.param(*case, id=key) for key, case in INCOMPLETE.items()],
)
def test_an_incomplete_set_is_refused_by_the_names_that_miss(
    files: str, selector: str, missing: str
) -> None:
    found = listing(files)
    with pytest.raises(IncompleteShardsError) as caught:
        choose(found, selector)

    assert list(caught.value.missing) == missing.split()
    assert all(name in caught.value.message for name in missing.split())


def test_many_missing_parts_make_a_short_message() -> None:
    with pytest.raises(IncompleteShardsError, match=r"and 99988 more") as caught:
        choose(listing("X-Q4_0-00001-of-99999.gguf"), "")

    assert len(caught.value.missing) == 99_998
    assert len(caught.value.message) < 1000


def test_parts_are_in_order_and_their_sizes_add_up() -> None:
    names = [f"X-Q4_0-{n:05d}-of-00003.gguf" for n in (3, 1, 2)]
    files = group(ModelFile(name, size) for name, size in zip(names, (300, 100, 200), strict=True))

    variant = files.choose("Q4_0", None, "org/repo")

    assert [file.name for file in variant.files] == sorted(names)
    assert [file.size for file in variant.files] == [100, 200, 300]
    assert variant.size == 600
    assert group([ModelFile("X-Q4_0.gguf", None)]).models[0].size is None


# files with their metadata, selector, entry point, role
BY_HEADER = {
    "model": ({"x-Q4_0.gguf": MODEL}, "", "x-Q4_0.gguf", "model"),
    "label-from-metadata": (
        {"x.gguf": {**MODEL, "general.file_type": 15}},
        ":Q4_K_M",
        "x.gguf",
        "model",
    ),
    "default-still-means-it": (
        {"x.gguf": {**MODEL, "general.file_type": 15}, "x-Q8_0.gguf": MODEL},
        ":DEFAULT",
        "x.gguf",
        "model",
    ),
    "name-before-metadata": (
        {"x-UD-IQ2_M.gguf": {**MODEL, "general.file_type": 14}},
        ":UD-IQ2_M",
        "x-UD-IQ2_M.gguf",
        "model",
    ),
    "unknown-file-type": (
        {"x.gguf": {**MODEL, "general.file_type": 777}},
        ":DEFAULT",
        "x.gguf",
        "model",
    ),
    "projector-without-the-word": (
        {"vision-Q4_0.gguf": PROJECTOR, "x-Q4_0.gguf": MODEL},
        ":Q4_0",
        "x-Q4_0.gguf",
        "model",
    ),
    "model-with-the-word-mmproj": (
        {"mmproj-x-Q4_0.gguf": MODEL},
        "",
        "mmproj-x-Q4_0.gguf",
        "model",
    ),
    "draft-without-the-word": (
        {"x-small-Q4_0.gguf": DRAFT, "x-Q4_0.gguf": MODEL},
        ":Q4_0",
        "x-Q4_0.gguf",
        "model",
    ),
    "eagle": ({"x-e-Q4_0.gguf": EAGLE, "x-Q8_0.gguf": MODEL}, "", "x-Q8_0.gguf", "model"),
    "draft-alone": ({"x-Q4_0.gguf": DRAFT}, ":Q4_0", "x-Q4_0.gguf", "draft"),
    "draft-asked-by-file": (
        {"d-Q4_0.gguf": DRAFT, "x-Q4_0.gguf": MODEL},
        ":d-Q4_0.gguf",
        "d-Q4_0.gguf",
        "draft",
    ),
    "model-with-heads-named-mtp": ({"mtp-x-Q4_0.gguf": HEADS}, "", "mtp-x-Q4_0.gguf", "model"),
    "model-in-folder-mtp": ({"MTP/x-Q4_0.gguf": HEADS}, "", "MTP/x-Q4_0.gguf", "model"),
    "model-named-draft": ({"x-DRAFT-0.6B-Q4_0.gguf": MODEL}, "", "x-DRAFT-0.6B-Q4_0.gguf", "model"),
    "plain-beside-heads": (
        {"a-Q6_K.gguf": HEADS, "b-Q6_K.gguf": MODEL},
        ":Q6_K",
        "b-Q6_K.gguf",
        "model",
    ),
    "plain-by-name-before-heads": (
        {"a-mtp-Q6_K.gguf": HEADS, "b-Q6_K.gguf": HEADS},
        ":Q6_K",
        "b-Q6_K.gguf",
        "model",
    ),
    "embedding": ({"x-Q8_0.gguf": EMBEDDING}, "", "x-Q8_0.gguf", "embedding"),
    "adapter-aside": (
        {"lora-Q4_0.gguf": ADAPTER, "x-Q4_0.gguf": MODEL},
        ":Q4_0",
        "x-Q4_0.gguf",
        "model",
    ),
    "split": (
        {
            "x-Q4_0-00001-of-00002.gguf": part(1, 2, MODEL),
            "x-Q4_0-00002-of-00002.gguf": part(2, 2),
        },
        ":Q4_0",
        "x-Q4_0-00001-of-00002.gguf",
        "model",
    ),
    "whole-file-named-like-a-part": (
        {"x-Q4_0-00001-of-00013.gguf": MODEL},
        ":Q4_0",
        "x-Q4_0-00001-of-00013.gguf",
        "model",
    ),
    "whole-file-by-file": (
        {"x-00007-of-00013.gguf": MODEL},
        ":x-00007-of-00013.gguf",
        "x-00007-of-00013.gguf",
        "model",
    ),
    "split-draft": (
        {"x-00001-of-00002.gguf": part(1, 2, DRAFT), "x-00002-of-00002.gguf": part(2, 2)},
        "",
        "x-00001-of-00002.gguf",
        "draft",
    ),
}


@pytest.mark.parametrize(
    ("files", "selector", "expected", "role"),
    [pytest.param(*case, id=key) for key, case in BY_HEADER.items()],
)
def test_metadata_tells_what_a_file_is(
    files: Mapping[str, Facts], selector: str, expected: str, role: str
) -> None:
    found = with_headers(files)
    ref = parse(f"org/repo{selector}")
    variant = found.choose(ref.precision, ref.file, ref.name)

    assert (variant.name, variant.role) == (expected, role)
    assert not variant.by_name


RENAMED = {
    "joined": ({"x-Q4_0.gguf": part(1, 3, MODEL)}, "part 1 of 3"),
    "later-part": ({"x-Q4_0.gguf": part(2, 3, MODEL)}, "part 2 of 3"),
    "other-count": (
        {"x-Q4_0-00001-of-00002.gguf": part(1, 3, MODEL), "x-Q4_0-00002-of-00002.gguf": part(2, 3)},
        "part 1 of 3 by its header",
    ),
    "swapped, as writers leave the later parts": (
        {"x-Q4_0-00001-of-00002.gguf": part(2, 2), "x-Q4_0-00002-of-00002.gguf": part(1, 2, MODEL)},
        "part 2 of 2 by its header, but part 1 of 2 by its name",
    ),
    "the second twice": (
        {"x-Q4_0-00001-of-00002.gguf": part(2, 2), "x-Q4_0-00002-of-00002.gguf": part(2, 2)},
        "part 2 of 2 by its header, but part 1 of 2 by its name",
    ),
    "swapped": (
        {"x-Q4_0-00001-of-00002.gguf": part(2, 2, MODEL), "x-Q4_0-00002-of-00002.gguf": part(1, 2)},
        "part 2 of 2 by its header, but part 1 of 2 by its name",
    ),
}


@pytest.mark.parametrize(
    ("files", "reason"), [pytest.param(*case, id=key) for key, case in RENAMED.items()]
)
def test_renamed_or_joined_parts_are_explained(files: Mapping[str, Facts], reason: str) -> None:
    with pytest.raises(GGUFError, match=reason) as caught:
        with_headers(files).choose("Q4_0", None, "org/repo")

    assert not isinstance(caught.value, IncompleteShardsError)
    assert "llama-gguf-split" in (caught.value.hint or "")


SETS: dict[str, tuple[int | None, list[list[str]], str | None]] = {
    "whole": (3, [["a", "b"], ["c"]], None),
    "count not stated": (None, [["a", "b"], ["c"]], None),
    "a part without tensors": (1, [[], ["a"]], None),
    "repeated": (3, [["a", "b"], ["b"]], "both hold the tensor `b`"),
    "missing": (3, [["a"], ["c"]], "its 2 parts hold 2 tensors, where 3 belong to it"),
    "too many": (2, [["a", "b"], ["c"]], "its 2 parts hold 3 tensors, where 2 belong to it"),
    "a part is not here": (3, [["a"]], "missing: x-Q4_0-00002-of-00002.gguf"),
}


@pytest.mark.parametrize(("stated", "parts", "reason"), SETS.values(), ids=SETS)
def test_the_tensors_of_a_set(
    stated: int | None, parts: list[list[str]], reason: str | None
) -> None:
    files = []
    for number, names in enumerate(parts, 1):
        facts = dict(part(number, 2, MODEL if number == 1 else None))
        if stated is not None:
            facts["split.tensors.count"] = stated
        held = tuple(TensorInfo(name, (32,), 0, 0) for name in names)
        found = GGUFHeader(3, facts, held, None)
        files.append(ModelFile(f"x-Q4_0-{number:05d}-of-00002.gguf", 1, header=found))
    if reason is None:
        assert len(group(files).choose(None, None, "org/repo").files) == 2
        return
    with pytest.raises(GGUFError, match=reason):
        group(files).choose(None, None, "org/repo")


def test_kinds_of_an_unsloth_repository() -> None:
    files = listing(UNSLOTH)

    assert files.labels == ("Q4_K_M", "UD-Q4_K_XL", "BF16")
    assert [v.name for v in files.drafts] == ["MTP/mtp-X-Q4_0.gguf"]
    assert [v.label for v in files.projectors] == ["F16", "BF16", "F32"]
    assert {f.name for f in files.others} == {"imatrix_unsloth.gguf", "README.md", "config.json"}
    assert all(variant.by_name for variant in files.models)
    with pytest.raises(ModelNotFoundError):
        choose(files, ":imatrix_unsloth.gguf")


def test_the_first_projector_is_precise_and_not_the_largest() -> None:
    files = listing(
        "mmproj-Q8_0.gguf mmproj-F32.gguf mmproj-BF16.gguf mmproj-x.gguf mmproj-Q4_0.gguf"
    )

    assert [v.label for v in files.projectors] == ["BF16", "Q8_0", "F32", "Q4_0", "DEFAULT"]


def test_the_pair_of_the_tutorial() -> None:
    target = listing("gemma-4-26B_q4_0-it.gguf gemma-4-26B-it-mmproj.gguf README.md")
    draft = listing("gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf README.md")

    assert choose(target, ":Q4_0") == "gemma-4-26B_q4_0-it.gguf"
    assert choose(draft, ":Q4_0") == "gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf"
    assert draft.runnable[0].role == "draft"


def test_embedding_models_are_listed_as_what_they_are() -> None:
    files = listing("nomic-embed-text-v1.5.Q8_0.gguf Qwen3-Embedding-0.6B-f16.gguf")

    assert {variant.role for variant in files.models} == {"embedding"}
    assert files.labels == ("Q8_0", "F16")


def test_every_selector_that_is_shown_chooses_its_variant() -> None:
    files = listing(f"{MTP} {UNSLOTH} {SPLIT} Y-Q4_K_M.gguf odd.gguf")

    assert [choose(files, f":{shown}") for shown in files.selectors()] == [
        variant.name for variant in files.runnable
    ]
    assert "X-MTP-Q6_K.gguf" in files.selectors()
    assert {"Q6_K", "BF16", "DEFAULT", "Q4_0"} <= set(files.selectors())


_STEMS = st.sampled_from(["x", "y-MTP", "mtp-z", "mmproj", "gemma-assistant", "imatrix", "draft"])
_ENDS = st.sampled_from(["", "-Q4_0", "-q4_0", "-UD-Q4_K_XL", "-F16", "-Q8", ".i1-IQ3_M", "-fp16"])
_PARTS = st.sampled_from(
    ["", "-00001-of-00002", "-00002-of-00002", "-00001-of-00001", "-00000-of-1"]
)
_FOLDERS = st.sampled_from(["", "Q8_0/", "MTP/", "a/b/", ".cache/"])
_SUFFIXES = st.sampled_from([".gguf", ".GGUF", ".json", ".gguf.part"])
_NAMES = st.builds("{}{}{}{}{}".format, _FOLDERS, _STEMS, _ENDS, _PARTS, _SUFFIXES) | st.text(
    min_size=1, max_size=20
)
_HEADERS = st.none() | st.sampled_from(
    [MODEL, DRAFT, PROJECTOR, EMBEDDING, ADAPTER, HEADS, {}, part(1, 2, MODEL), part(2, 2)]
).map(header)
_MODEL_FILES = st.builds(
    ModelFile, _NAMES, st.none() | st.integers(min_value=0), st.none(), _HEADERS
)


@given(st.lists(_MODEL_FILES, max_size=8), st.none() | _ENDS.map(lambda end: end.strip("-.")))
def test_any_listing_is_sorted_and_any_choice_is_of_it(
    files: list[ModelFile], label: str | None
) -> None:
    found = group(files)

    variants: list[Variant] = [*found.models, *found.drafts, *found.projectors]
    placed = [file.name for variant in variants for file in variant.files]
    placed += [file.name for file in found.others]
    assert sorted(placed) == sorted({file.name for file in files})
    assert group(reversed(files)).labels == found.labels or len(placed) < len(files)
    for asked in (*found.labels, label):
        try:
            chosen = found.choose(asked, None, "org/repo")
        except GenieXError:
            continue
        assert chosen in found.runnable
        assert not chosen.missing
    for variant in variants:
        try:
            assert found.choose(None, variant.name, "org/repo") is variant
        except (IncompleteShardsError, GGUFError):
            assert variant.missing or variant.problem
