"""Refusing fields by name: bad values, and what of the OpenAI API cannot be honoured here.

Fields that change no answer (`user`, `metadata`, `prompt_cache_key` and their like) are taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from geniex.server.errors import RequestError, describe
from geniex_catalogue.errors import GenieXError, SchemaError, UsageError


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
            raise unsupported(f"`{name}` is not supported: {row.why}", name)


def unsupported(message: str, param: str) -> RequestError:
    """The error for a field that cannot be honoured."""
    return RequestError(message, param=param, code="unsupported_parameter")


def invalid(message: str, param: str, hint: str | None = None) -> RequestError:
    """The error for a value that a field cannot have."""
    return RequestError(message, param=param, code="invalid_value", hint=hint)


def about(error: GenieXError, param: str) -> RequestError:
    """An error with the status, code and text that it is answered with, about another field."""
    status, body, _ = describe(error)
    return RequestError(body.error.message, param=param, code=body.error.code, status=status)


def named(error: UsageError, param: str) -> RequestError:
    """The same error, with the field that it is about."""
    code = "unsupported_schema" if isinstance(error, SchemaError) else "invalid_value"
    return RequestError(error.message, param=param, code=code, hint=error.hint)
