"""Fields of the OpenAI API that cannot be honoured here: refused by name, never ignored.

Fields that change no answer (`user`, `metadata`, `prompt_cache_key` and their like) are taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from geniex.server.errors import RequestError


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why a field is refused; its `harmless` values ask for what happens anyway."""

    why: str
    harmless: tuple[object, ...] = ()


def refuse_unsupported(
    given: Mapping[str, object] | None, table: Mapping[str, Unsupported]
) -> None:
    """Raise RequestError for the first field of the table that is given."""
    for name, value in (given or {}).items():
        row = table.get(name)
        if row is not None and value is not None and value not in row.harmless:
            raise RequestError(
                f"`{name}` is not supported: {row.why}", param=name, code="unsupported_parameter"
            )
