"""What a bundle's tokenizer.json says of special tokens; encoding is the tokenizer's own work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex_catalogue.errors import BundleError
from geniex_runtimes.qairt.bundle_json import MAX_TOKENIZER, Section, parse_json, read_bounded

_MAX_ID = 1 << 24
# the last key of a tokenizer.json, as it is written
_MODEL = b'"model":'


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """The texts of the special tokens: `control` are all of them, `end` end an answer."""

    bos: str
    eos: str
    control: frozenset[str]
    end: frozenset[str]


def read_token_texts(path: Path, bos_id: int | None, eos_ids: tuple[int, ...]) -> TokenTexts:
    """The texts of the special tokens in a tokenizer.json. Raises BundleError.

    The vocabulary, which is most of it, is only read where one of the tokens is in there alone.
    """
    data = read_bounded(path, MAX_TOKENIZER)
    file = _before_model(path, data)
    if file is None or not {bos_id, *eos_ids} - {None} <= _added(file)[0].keys():
        file = parse_json(path, data)
        if not file.section("model").values:
            raise file.fault("model", "is missing: this is no tokenizer")
    added, special = _added(file)
    texts = {**_plain(file.section("model"), {bos_id, *eos_ids} - {None, *added}), **added}
    ends = [texts[token] for token in eos_ids if token in texts]
    return TokenTexts(
        bos=texts.get(bos_id, "") if bos_id is not None else "",
        eos=ends[0] if ends else "",
        control=frozenset({*special, *ends}),
        end=frozenset(ends),
    )


def _before_model(path: Path, data: bytes) -> Section | None:
    """What stands before the vocabulary; None where it is not as tokenizers are written."""
    end = data.find(_MODEL)
    head = data[:end].rstrip().removesuffix(b",")
    if end < 0 or b'"added_tokens"' not in head:
        return None
    try:
        return parse_json(path, head + b"}")
    except BundleError:
        # a key of that name deeper down, or damage: the whole of it tells
        return None


def _added(file: Section) -> tuple[dict[int, str], list[str]]:
    """The tokens beside the vocabulary, by id, and the texts of those that are special."""
    value: Any = file.values.get("added_tokens")
    if value is None:
        return {}, []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise file.fault("added_tokens", "is not a list of objects")
    found: dict[int, str] = {}
    special: list[str] = []
    for at, values in enumerate(value):
        one = Section(file.file, values, f"added_tokens[{at}]")
        token, text = one.whole("id", 0, _MAX_ID), one.text("content")
        if token is None or text is None:
            raise one.fault("id", "or `content` is missing")
        found[token] = text
        if values.get("special") is True:
            special.append(text)
    return found, special


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
