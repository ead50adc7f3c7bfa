"""Whether two models mean the same by a token: a draft's tokens are the target's."""

import struct
from pathlib import Path

from geniex_catalogue.errors import ModelFileError
from geniex_catalogue.gguf import ArrayInfo, GGUFHeader
from geniex_runtimes.errors import SpeculativeError

# by how much llama.cpp lets two vocabularies differ in length: models are padded differently
SPARE_TOKENS = 128

_KINDS = (("tokenizers", "tokenizer.ggml.model"), ("pre-tokenizers", "tokenizer.ggml.pre"))
_TOKENS = "tokenizer.ggml.tokens"
_LENGTH = struct.Struct("<Q")
_SHOWN = 40


def check(
    target: GGUFHeader, target_path: Path, draft: GGUFHeader, draft_path: Path, *, spare: int = 0
) -> None:
    """Compare kind, length and every token's text, in the range that both have.

    The lengths may differ by `spare` tokens. Raises SpeculativeError with the reason, and
    ModelFileError for a target that cannot be read, which is no fault of the draft.
    """
    names = f"`{draft_path.name}`", f"`{target_path.name}`"
    for what, key in _KINDS:
        kinds = draft.text(key), target.text(key)
        if kinds[0] != kinds[1]:
            raise _differ(what, names, kinds[0] or "none", kinds[1] or "none")
    tokens = _tokens(draft, names[0]), _tokens(target, names[1])
    if abs(tokens[0].length - tokens[1].length) > spare:
        raise _differ(
            "vocabularies", names, f"{tokens[0].length} tokens", f"{tokens[1].length} tokens"
        )
    texts = _texts_of_draft(draft_path, tokens[0]), _texts_of_target(target_path, tokens[1])
    few, many = texts if tokens[0].length <= tokens[1].length else reversed(texts)
    # each text stands behind its length, so this compares token by token
    if not many.startswith(few):
        number, first, second = _first_difference(*texts)
        raise _differ("vocabularies", names, f"{first} as token {number}", second)


def check_ends(target: GGUFHeader, target_path: Path, draft: GGUFHeader, draft_path: Path) -> None:
    """Compare how texts begin and end; what a file leaves to its tokenizer's default is not.

    Raises SpeculativeError with the reason.
    """
    names = f"`{draft_path.name}`", f"`{target_path.name}`"
    for end in ("bos", "eos"):
        asked = f"tokenizer.ggml.add_{end}_token"
        adds = draft.metadata.get(asked), target.metadata.get(asked)
        if None not in adds and adds[0] != adds[1]:
            raise _differ(f"`add_{end}_token`", names, adds[0], adds[1])
        key = f"tokenizer.ggml.{end}_token_id"
        ids = draft.number(key), target.number(key)
        if adds[1] and None not in ids and ids[0] != ids[1]:
            raise _differ(f"`{end}` tokens", names, ids[0], ids[1])


def _differ(what: str, names: tuple[str, str], drafts: object, targets: object) -> SpeculativeError:
    return SpeculativeError(
        f"the {what} differ: {names[0]} has {drafts}, {names[1]} has {targets}",
        hint="a draft must have the vocabulary of its target",
    )


def _tokens(header: GGUFHeader, name: str) -> ArrayInfo:
    tokens = header.metadata.get(_TOKENS)
    if not isinstance(tokens, ArrayInfo) or not tokens.length:
        raise SpeculativeError(f"{name} has no vocabulary to compare")
    return tokens


def _texts_of_draft(path: Path, tokens: ArrayInfo) -> bytes:
    try:
        return _texts(path, tokens)
    except OSError as exc:
        raise SpeculativeError(
            f"the vocabulary of `{path.name}` cannot be read: {exc.strerror or exc}"
        ) from exc


def _texts_of_target(path: Path, tokens: ArrayInfo) -> bytes:
    try:
        return _texts(path, tokens)
    except FileNotFoundError as exc:
        raise ModelFileError(f"`{path.name}` is missing", hint="pull it again") from exc
    except OSError as exc:
        raise ModelFileError(f"`{path.name}` cannot be read: {exc.strerror or exc}") from exc


def _texts(path: Path, tokens: ArrayInfo) -> bytes:
    """The tokens as they stand in the file: each text behind its length. Raises OSError."""
    with path.open("rb") as file:
        file.seek(tokens.start)
        texts = file.read(tokens.end - tokens.start)
    if len(texts) < tokens.end - tokens.start:
        raise SpeculativeError(f"the vocabulary of `{path.name}` is cut short")
    return texts


def _first_difference(one: bytes, other: bytes) -> tuple[int, str, str]:
    """The first token in which two vocabularies differ: its id and both texts."""
    number, at = 0, 0
    while True:
        first, second = _text_at(one, at), _text_at(other, at)
        if first != second:
            return number, _shown(first), _shown(second)
        number += 1
        at += _LENGTH.size + len(first)


def _text_at(texts: bytes, at: int) -> bytes:
    length = _LENGTH.unpack_from(texts, at)[0]
    return texts[at + _LENGTH.size : at + _LENGTH.size + length]


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN].decode("utf-8", "replace"))
