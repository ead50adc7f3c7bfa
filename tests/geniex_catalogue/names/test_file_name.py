"""File names: which are safe, and under which others are stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import ModelRefError
from geniex_catalogue.names import check_file_name, storable


@pytest.mark.parametrize("name", ["a.gguf", "README.md", "x/y/z.bin", ".gitattributes", "ä ö.txt"])
def test_safe_file_names(name: str) -> None:
    check_file_name(name)


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "../a", "a/./b", "a\0b", "a\\b", "C:a", "aux", "a.", " a", "a%2fb"]
)
def test_unsafe_file_names(name: str) -> None:
    with pytest.raises(ModelRefError):
        check_file_name(name)


@given(st.text(max_size=40).filter(lambda text: text.strip("/") == text))
def test_storable_names_are_safe_and_stay_so(name: str) -> None:
    safe = storable(name)
    assert storable(safe) == safe
    parts = name.split("/")
    if not any(part in ("", ".", "..") for part in parts):
        check_file_name(safe)
        assert len(safe.split("/")) == len(parts)


@pytest.mark.parametrize("name", ["m-Q4_0.gguf", "a/b c.gguf", "é 100%.gguf", "../x", "a//b", "/x"])
def test_storable_leaves_good_and_hopeless_names(name: str) -> None:
    assert storable(name) == name
