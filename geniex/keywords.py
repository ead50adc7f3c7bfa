"""Texts that speak of flags, as the terminal does, in the keywords of the Python API."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from geniex.session import OpenModel
from geniex_catalogue.errors import GenieXError

log = logging.getLogger("geniex.api")

# what stands in backticks, or a flag outside of them
_PIECE = re.compile(r"`[^`]*`|--[a-z][a-z-]*[a-z]")
_FLAG = re.compile(r"--([a-z][a-z-]*[a-z])(?: (?!--)([^\s`]+))?")


def in_keywords(text: str, keywords: Mapping[str, str]) -> str:
    """A text with `nctx=4096` for `--nctx 4096`; `keywords` are those of the flags, by flag.

    Whole commands stay, and so do flags that are no keyword.
    """

    def keyword(flag: re.Match[str]) -> str:
        name, value = keywords.get(flag[1]), flag[2]
        if name is None:
            return flag[0]
        if value is None:
            return name
        return f"{name}={value if value.lstrip('-').isdecimal() else repr(value)}"

    def piece(found: re.Match[str]) -> str:
        is_command = found[0].startswith("`geniex ")
        return found[0] if is_command else _FLAG.sub(keyword, found[0])

    return _PIECE.sub(piece, text)


@contextmanager
def told_in(keywords: Mapping[str, str]) -> Iterator[None]:
    """Have the errors that pass speak of keywords."""
    try:
        yield
    except GenieXError as exc:
        exc.message = in_keywords(exc.message, keywords)
        exc.args = (exc.message,)
        exc.hint = None if exc.hint is None else in_keywords(exc.hint, keywords)
        raise


def warnings_of(model: OpenModel, keywords: Mapping[str, str]) -> tuple[str, ...]:
    """The warnings of a model, in keywords."""
    return tuple(in_keywords(text, keywords) for text in model.warnings)


def log_notes(model: OpenModel, keywords: Mapping[str, str]) -> None:
    """Log what was chosen otherwise than asked; of speculation it is logged where it fails."""
    for note in model.plan.notes:
        log.warning("%s: %s", model.resolved.name, in_keywords(note, keywords))
