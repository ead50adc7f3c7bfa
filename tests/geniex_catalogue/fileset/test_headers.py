"""Headers: what the metadata of a file says of it goes before its name."""

from collections.abc import Mapping

import pytest

from geniex_catalogue.names import parse
from tests.geniex_catalogue.fileset.listings import (
    ADAPTER,
    DRAFT,
    EAGLE,
    EMBEDDING,
    HEADS,
    MODEL,
    PROJECTOR,
    Facts,
    part,
    with_headers,
)

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
