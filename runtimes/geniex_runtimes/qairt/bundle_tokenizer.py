"""What a bundle's tokenizer.json says of special tokens; encoding is the tokenizer's own work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex_runtimes.qairt.bundle_json import MAX_TOKENIZER, Section, read_json

_MAX_ID = 1 << 24


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """The texts of the special tokens: `control` are all of them, `end` end an answer."""

    bos: str
    eos: str
    control: frozenset[str]
    end: frozenset[str]


def read_token_texts(path: Path, bos_id: int | None, eos_ids: tuple[int, ...]) -> TokenTexts:
    """The texts of the special tokens in a tokenizer.json. Raises BundleError."""
    file = read_json(path, MAX_TOKENIZER)
    model = file.section("model")
    if not model.values:
        raise file.fault("model", "is missing: this is no tokenizer")
    added = _added(file)
    texts = {**_plain(model, {bos_id, *eos_ids} - {None, *added}), **added}
    special = {text for token, text in added.items() if token in _special(file)}
    ends = [texts[token] for token in eos_ids if token in texts]
    return TokenTexts(
        bos=texts.get(bos_id, "") if bos_id is not None else "",
        eos=ends[0] if ends else "",
        control=frozenset(special | set(ends)),
        end=frozenset(ends),
    )


def _added(file: Section) -> dict[int, str]:
    found: dict[int, str] = {}
    for one in _entries(file):
        token, text = one.whole("id", 0, _MAX_ID), one.text("content")
        if token is None or text is None:
            raise one.fault("id", "or `content` is missing")
        found[token] = text
    return found


def _special(file: Section) -> set[int]:
    return {one.values["id"] for one in _entries(file) if one.values.get("special") is True}


def _entries(file: Section) -> list[Section]:
    value: Any = file.values.get("added_tokens")
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise file.fault("added_tokens", "is not a list of objects")
    return [Section(file.file, one, f"added_tokens[{at}]") for at, one in enumerate(value)]


def _plain(model: Section, wanted: set[int | None]) -> dict[int, str]:
    """The texts of tokens that are in the vocabulary and not among the added ones."""
    vocabulary = model.values.get("vocab")
    if not wanted or not isinstance(vocabulary, Mapping):
        return {}
    return {
        token: text
        for text, token in vocabulary.items()
        if isinstance(token, int) and token in wanted
    }
