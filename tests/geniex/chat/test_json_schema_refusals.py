"""Schemas that a grammar cannot honour, or that are absurd, are refused by name and soon."""

import time
from typing import Any

import pytest

from geniex.chat.json_schema import schema_grammar
from geniex_catalogue.errors import SchemaError
from tests.geniex.chat.test_json_schema import BOOL, NULL, Schema, closed

REFUSED: list[Any] = [
    pytest.param(
        {"type": "object", "patternProperties": {}}, "patternProperties", "schema", id="new"
    ),
    pytest.param({"type": "array", "uniqueItems": True}, "uniqueItems", "schema", id="unique"),
    pytest.param({"not": {}}, "not", "schema", id="not"),
    pytest.param({"frobnicate": 1}, "frobnicate", "schema", id="unknown"),
    pytest.param({"type": "number", "multipleOf": 2}, "multipleOf", "schema", id="multipleOf"),
    pytest.param(
        closed(a=closed(b={"type": "string", "format": "iri"})),
        "format",
        "schema/properties/a/properties/b",
        id="format, deep",
    ),
    pytest.param({"type": "string", "pattern": "(?=x)"}, "pattern", "schema", id="pattern"),
    pytest.param(
        {"type": "string", "pattern": "x", "minLength": 3},
        "minLength",
        "schema",
        id="pattern, length",
    ),
    pytest.param({"type": "string", "maxLength": 10**6}, "maxLength", "schema", id="long"),
    pytest.param({"type": "array", "maxItems": 10**6}, "maxItems", "schema", id="many"),
    pytest.param(
        {"type": "array", "minItems": 3, "maxItems": 2}, "minItems", "schema", id="length"
    ),
    pytest.param({"type": "strung"}, "type", "schema", id="type"),
    pytest.param({"type": []}, "type", "schema", id="no type"),
    pytest.param({"minLength": 1, "minimum": 2}, "type", "schema", id="no telling which type"),
    pytest.param({"enum": []}, "enum", "schema", id="enum"),
    pytest.param({"enum": [1], "minimum": 2}, "minimum", "schema", id="enum and more"),
    pytest.param({"type": "integer", "minimum": 2, "maximum": 1}, "minimum", "schema", id="empty"),
    pytest.param({"type": "integer", "minimum": "2"}, "minimum", "schema", id="no number"),
    pytest.param({"type": "array", "items": [{}]}, "items", "schema", id="list of items"),
    pytest.param({"properties": []}, "properties", "schema", id="properties"),
    pytest.param({"type": "object", "required": "a"}, "required", "schema", id="required"),
    pytest.param(
        {"required": ["a"], "additionalProperties": False}, "required", "schema", id="forbidden"
    ),
    pytest.param(closed(a=False), "false", "schema/properties/a", id="false"),
    pytest.param({"anyOf": []}, "anyOf", "schema", id="no alternatives"),
    pytest.param({"anyOf": [1]}, "$schema", "schema/anyOf/0", id="no schema"),
    pytest.param({"oneOf": [BOOL, {}]}, "oneOf", "schema", id="oneOf"),
    pytest.param({"allOf": [BOOL, NULL]}, "type", "schema", id="allOf"),
    pytest.param({"$ref": "#/$defs/none"}, "$ref", "schema", id="$ref"),
    pytest.param({"$ref": "other.json#/x"}, "$ref", "schema", id="$ref elsewhere"),
    pytest.param({"$ref": "#"}, "$ref", "schema", id="$ref to itself"),
    pytest.param({"anyOf": [{"$ref": "#"}, NULL]}, "$ref", "schema/anyOf/0", id="own alternative"),
    pytest.param(closed(a={"$ref": "#"}), "$ref", "schema/properties/a", id="without an end"),
    pytest.param({"enum": list(range(2000))}, "enum", "schema", id="many values"),
    pytest.param({"anyOf": [{"const": n} for n in range(400)]}, "anyOf", "schema", id="many ways"),
    pytest.param(
        {"properties": {str(n): BOOL for n in range(400)}},
        "properties",
        "schema",
        id="many optional",
    ),
    pytest.param({"const": float("nan")}, "$schema", "schema", id="no json"),
]


@pytest.mark.parametrize(("schema", "keyword", "path"), REFUSED)
def test_what_cannot_be_honoured_is_named(schema: Schema, keyword: str, path: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_grammar(schema)
    assert (caught.value.keyword, caught.value.path) == (keyword, path)
    assert f"`{keyword}` at `{path}`" in caught.value.message


def deep(size: int) -> Schema:
    schema: Schema = {}
    for _ in range(size):
        schema = {"type": "array", "items": schema, "minItems": 1}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(deep(200), id="deep"),
        pytest.param(deep(5000), id="very deep"),
        pytest.param(
            {"properties": {f"p{n}": {"enum": [str(n)]} for n in range(9000)}}, id="many members"
        ),
        pytest.param({"enum": ["x" * 500_000]}, id="long"),
        pytest.param(
            {
                "allOf": [
                    {"anyOf": [{"properties": {f"{n}": {"const": k}}} for k in range(3)]}
                    for n in range(40)
                ]
            },
            id="exponential",
        ),
    ],
)
def test_absurd_schemas_are_refused_soon(schema: Schema) -> None:
    started = time.monotonic()
    with pytest.raises(SchemaError):
        schema_grammar(schema)
    assert time.monotonic() - started < 30
