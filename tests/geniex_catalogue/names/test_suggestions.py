"""Suggestions: what a name nearly is."""

import pytest

from geniex_catalogue.errors import ModelNotFoundError
from geniex_catalogue.names import parse, suggest
from tests.geniex_catalogue.names.typed import ALIASES

SUGGESTED = {
    "typo": ("quen3", "qwen3"),
    "beginning": ("qwen", "qwen3"),
    "repo": ("Qwen3-1.7B-GGUF", "qwen3"),
    "part-of-repo": ("Llama-3.2", "llama-3.2-1b"),
    "letter-missing": ("lama-3.2-1b", "llama-3.2-1b"),
    "with-precision": ("tyni:Q8_0", "tiny"),
}


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(*case, id=key) for key, case in SUGGESTED.items()]
)
def test_an_unknown_bare_name_gets_suggestions(text: str, expected: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        parse(text, ALIASES)

    assert expected in caught.value.suggestions
    assert caught.value.hint is not None
    assert f"`{expected}`" in caught.value.hint


def test_without_anything_near_the_form_of_a_name_is_the_hint() -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        parse("zzzzzz", ALIASES)

    assert caught.value.suggestions == ()
    assert "org/repo" in (caught.value.hint or "")


def test_a_model_is_suggested_once() -> None:
    aliases = {"gem": "a/Gem-GGUF", "gem-1b": "a/Gem-GGUF", "gems": "b/Gems-GGUF"}

    assert suggest("gem", aliases) == ("gem", "gems")
