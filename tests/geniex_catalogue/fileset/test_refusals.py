"""Selectors that mean several files, or none."""

import pytest

from geniex_catalogue.errors import AmbiguousModelError, ModelNotFoundError, PrecisionNotFoundError
from tests.geniex_catalogue.fileset.listings import ALL, SPLIT, UNSLOTH, choose, listing

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


def test_hundreds_of_files_are_not_all_listed() -> None:
    many = " ".join(f"m{number:03}/X-Q4_0.gguf" for number in range(200))
    with pytest.raises(AmbiguousModelError) as caught:
        choose(listing(many), ":Q4_0")
    assert len(caught.value.candidates) == 200
    assert "and 188 more" in caught.value.message and "m199" not in caught.value.message


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
