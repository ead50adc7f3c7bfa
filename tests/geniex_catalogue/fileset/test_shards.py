"""Shards: a set is whole, in order and of one model, or it is refused."""

from collections.abc import Mapping

import pytest

from geniex_catalogue.errors import GGUFError, IncompleteShardsError
from geniex_catalogue.fileset import ModelFile, group
from geniex_catalogue.gguf import GGUFHeader, TensorInfo
from tests.geniex_catalogue.fileset.listings import (
    MODEL,
    SPLIT,
    Facts,
    choose,
    listing,
    part,
    with_headers,
)

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
