"""The names of `--spec-type`: which there are, in which order they are tried, and which cannot be.

The names and the order are llama.cpp's (`common/speculative.cpp`): what needs no draft model comes
first, because it costs next to nothing to try.
"""

from collections.abc import Sequence

from geniex_catalogue.errors import UsageError

ORDER = ("ngram-simple", "ngram-map-k", "ngram-mod", "draft-simple", "draft-mtp")
AUTO = "auto"
NGRAMS, DRAFTS = ORDER[:3], ORDER[3:]
# draft tokens a step where nobody says how many: what an n-gram drafter copies costs nothing
DRAFT_TOKENS, COPIED_TOKENS = 3, 15
# llama.cpp has these in C++ only: the Python package exports neither them nor what they stand on
UNREACHABLE = ("ngram-map-k4v", "ngram-cache", "draft-eagle3", "draft-dflash", "draft-dspark")


def parse_types(text: str) -> tuple[str, ...]:
    """The types of a comma list, in the order in which they are tried; empty means plain decoding.

    Case, spaces and duplicates do not matter, `none` and empty items are dropped; `auto` stands
    alone, and a draft is of one kind. Raises UsageError for a name that is unknown, or known to
    llama.cpp but out of reach.
    """
    names = {item.strip().lower() for item in text.split(",")} - {"", "none"}
    for name in sorted(names):
        _check(name)
    if AUTO in names and len(names) > 1:
        raise UsageError(
            f"`{AUTO}` cannot be combined with another speculative type",
            hint=f"give `{AUTO}` alone, or only the types to try",
        )
    if names.issuperset(DRAFTS):
        raise UsageError(
            f"{' and '.join(f'`{name}`' for name in DRAFTS)} cannot be used together",
            hint="there is one draft: give the type that it is for",
        )
    return (AUTO,) if AUTO in names else tuple(name for name in ORDER if name in names)


def copies_only(types: Sequence[str]) -> bool:
    """Whether these types, of which there are some, do without a model."""
    return bool(types) and all(name in NGRAMS for name in types)


def default_length(types: Sequence[str]) -> int:
    """The most draft tokens a step where nobody says how many."""
    return COPIED_TOKENS if copies_only(types) else DRAFT_TOKENS


def _check(name: str) -> None:
    known = ", ".join((AUTO, *ORDER, "none"))
    if name in UNREACHABLE:
        raise UsageError(
            f"speculative type `{name}` exists in llama.cpp, but cannot be reached from Python",
            hint=f"choose from: {known}",
        )
    if name != AUTO and name not in ORDER:
        raise UsageError(f"unknown speculative type `{name}`; known: {known}")
