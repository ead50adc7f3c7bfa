"""The form that an answer's content must have: any JSON object, or JSON that fits a schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from geniex_catalogue.errors import UsageError

_FORM = '{"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}'


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """`json_object` is any JSON object; `json_schema` is JSON that fits `schema`."""

    kind: Literal["json_object", "json_schema"]
    schema: Mapping[str, object] | bool = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: object) -> Self | None:
        """Read the OpenAI form; None for plain text. Raises UsageError for what is not one.

        The Responses API's form, with `schema` beside `type`, is read as well.
        """
        if data is None:
            return None
        if not isinstance(data, Mapping):
            raise UsageError("`response_format` is an object", hint=f"such as {_FORM}")
        kind = data.get("type")
        if kind == "text":
            return None
        if kind == "json_object":
            # `schema` here is how llama.cpp's server takes one
            schema = data.get("schema")
            return cls("json_object") if schema is None else cls("json_schema", _schema(schema))
        if kind == "json_schema":
            inner = data.get("json_schema", data)
            if isinstance(inner, Mapping):
                _check(inner)
            return cls("json_schema", _schema(inner.get("schema") if _is_map(inner) else None))
        raise UsageError(
            f"`{kind}` is no type of a `response_format`",
            hint="use text, json_object or json_schema",
        )


def _check(told: Mapping[str, object]) -> None:
    """Raise UsageError for what is said about a schema in a wrong type."""
    for key, kind, words in (
        ("name", str, "text"),
        ("description", str, "text"),
        ("strict", bool, "true or false"),
    ):
        if not isinstance(told.get(key), kind | None):
            raise UsageError(f"`{key}` of a `response_format` is {words}")


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _schema(schema: object) -> Mapping[str, object] | bool:
    if isinstance(schema, Mapping | bool):
        return schema
    raise UsageError("a `response_format` of type json_schema needs a `schema`", hint=_FORM)
