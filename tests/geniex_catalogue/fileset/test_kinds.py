"""Kinds: models, drafts, projectors and the rest of a listing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import (
    GenieXError,
    GGUFError,
    IncompleteShardsError,
    ModelNotFoundError,
)
from geniex_catalogue.fileset import ModelFile, Variant, group
from tests.geniex_catalogue.fileset.listings import (
    ADAPTER,
    DRAFT,
    EMBEDDING,
    HEADS,
    MODEL,
    PROJECTOR,
    UNSLOTH,
    choose,
    header,
    listing,
    part,
)


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


def test_embedding_models_are_listed_as_what_they_are() -> None:
    files = listing("nomic-embed-text-v1.5.Q8_0.gguf Qwen3-Embedding-0.6B-f16.gguf")

    assert {variant.role for variant in files.models} == {"embedding"}
    assert files.labels == ("Q8_0", "F16")


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
