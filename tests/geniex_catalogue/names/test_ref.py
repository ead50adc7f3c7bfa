"""A reference: a value that is safe, and whose text reads back."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import ModelRefError
from geniex_catalogue.names import ModelRef, parse


def test_a_ref_is_a_value() -> None:
    ref = ModelRef("org", "repo", precision="q4_0")

    assert (ref.name, ref.selector, str(ref)) == ("org/repo", "Q4_0", "org/repo:Q4_0")
    assert ref.with_precision("q8_0") == ModelRef("org", "repo", precision="Q8_0")
    assert ref.without_selector() == ModelRef("org", "repo")
    assert ModelRef("o", "r", file="x.gguf").with_precision("Q4_0") == parse("o/r:Q4_0")
    assert {ref: 1}[parse("org/repo:Q4_0")] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        ref.org = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"org": "..", "repo": "x"}, id="org"),
        pytest.param({"org": "a", "repo": "b/../../c"}, id="repo"),
        pytest.param({"org": "hf.co", "repo": "x"}, id="host"),
        pytest.param({"org": "a", "repo": "b.gguf"}, id="file-as-repo"),
        pytest.param({"org": "a", "repo": "b", "precision": "x.gguf"}, id="file-as-precision"),
        pytest.param({"org": "a", "repo": "b", "precision": ""}, id="empty-precision"),
        pytest.param({"org": "a", "repo": "b", "file": "/x.gguf"}, id="absolute-file"),
        pytest.param({"org": "a", "repo": "b", "file": "x.bin"}, id="other-file"),
        pytest.param(
            {"org": "a", "repo": "b", "precision": "Q4_0", "file": "x.gguf"}, id="two-selectors"
        ),
    ],
)
def test_an_unsafe_ref_cannot_be_made(parts: dict[str, str]) -> None:
    with pytest.raises(ModelRefError):
        ModelRef(**parts)


_SEGMENTS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,30}", fullmatch=True)
_LABELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True)
_FILES = st.from_regex(r"([a-zA-Z0-9 _é-]{1,8}/){0,2}[a-zA-Z0-9 ._é-]{1,20}\.gguf", fullmatch=True)


@given(_SEGMENTS, _SEGMENTS, st.none() | _LABELS, st.none() | _FILES)
def test_text_of_a_ref_reads_back(
    org: str, repo: str, precision: str | None, file: str | None
) -> None:
    try:
        ref = ModelRef(org, repo, precision, None if precision else file)
    except ModelRefError:
        return
    assert parse(str(ref)) == ref
    assert parse(f" https://huggingface.co/{ref} ") == ref
