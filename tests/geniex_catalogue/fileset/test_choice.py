"""Choices: which file a selector means, by the names alone."""

import pytest

from tests.geniex_catalogue.fileset.listings import ALL, MTP, SPLIT, UNSLOTH, choose, listing

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


def test_the_pair_of_the_tutorial() -> None:
    target = listing("gemma-4-26B_q4_0-it.gguf gemma-4-26B-it-mmproj.gguf README.md")
    draft = listing("gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf README.md")

    assert choose(target, ":Q4_0") == "gemma-4-26B_q4_0-it.gguf"
    assert choose(draft, ":Q4_0") == "gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf"
    assert draft.runnable[0].role == "draft"


def test_every_selector_that_is_shown_chooses_its_variant() -> None:
    files = listing(f"{MTP} {UNSLOTH} {SPLIT} Y-Q4_K_M.gguf odd.gguf")

    assert [choose(files, f":{shown}") for shown in files.selectors()] == [
        variant.name for variant in files.runnable
    ]
    assert "X-MTP-Q6_K.gguf" in files.selectors()
    assert {"Q6_K", "BF16", "DEFAULT", "Q4_0"} <= set(files.selectors())
