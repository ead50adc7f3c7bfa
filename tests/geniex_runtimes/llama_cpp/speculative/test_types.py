"""The words of `--spec-type`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import UsageError
from geniex_runtimes.llama_cpp.speculative.types import ORDER, UNREACHABLE, parse_types


@pytest.mark.parametrize(
    ("text", "types"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("none", (), id="none"),
        pytest.param(" , ,", (), id="commas alone"),
        pytest.param("draft-mtp", ("draft-mtp",), id="one"),
        pytest.param(" Draft-MTP ", ("draft-mtp",), id="case and spaces"),
        pytest.param("draft-mtp,ngram-mod", ("ngram-mod", "draft-mtp"), id="documented order"),
        pytest.param("ngram-mod,NGRAM-MOD", ("ngram-mod",), id="duplicates"),
        pytest.param("none,draft-simple", ("draft-simple",), id="none is dropped"),
        pytest.param("auto", ("auto",), id="auto"),
        pytest.param("AUTO,none", ("auto",), id="auto and nothing"),
    ],
)
def test_types_are_read(text: str, types: tuple[str, ...]) -> None:
    assert parse_types(text) == types


@given(st.lists(st.sampled_from(ORDER)))
def test_any_list_comes_out_once_and_in_order(names: list[str]) -> None:
    if {"draft-simple", "draft-mtp"} <= set(names):
        with pytest.raises(UsageError, match="cannot be used together"):
            parse_types(",".join(names))
        return
    assert parse_types(",".join(names)) == tuple(name for name in ORDER if name in names)


@pytest.mark.parametrize("name", UNREACHABLE)
def test_what_llama_cpp_alone_has_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=rf"`{name}` exists in llama\.cpp, but cannot be reached"):
        parse_types(f"draft-mtp,{name.upper()}")


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"`draft-mpt`; known: auto, ngram-simple, .*, none"):
        parse_types("draft-mpt")


def test_auto_stands_alone() -> None:
    with pytest.raises(UsageError, match="cannot be combined"):
        parse_types("auto,draft-mtp")
