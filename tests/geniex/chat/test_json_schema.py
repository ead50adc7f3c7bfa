"""JSON schemas as grammars: what a model draws by them fits, as the package `jsonschema` judges."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from geniex.chat.gbnf.notation import GEMMA
from geniex.chat.gbnf.rules import Rules
from geniex.chat.json_schema import schema_grammar, schema_rule
from geniex.config import Settings
from geniex.session import OpenModel, open_model
from geniex_catalogue.errors import SchemaError
from geniex_runtimes.contract import GenerationRequest, PromptPiece, TextEvent
from geniex_runtimes.options import SamplingOptions
from tests.geniex.judge import Judge

Schema = dict[str, Any]
Draw = Callable[[Schema, int], str | None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenModel]:
    with open_model("geniex/tiny-chat", Settings(tmp_path_factory.mktemp("data"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def draw(model: OpenModel) -> Draw:
    """An answer of the tiny model at random, held to a schema; None where it was cut."""

    def answer(schema: Schema, seed: int) -> str | None:
        sampling = SamplingOptions(
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            seed=seed,
            grammar=schema_grammar(schema),
        )
        request = GenerationRequest([PromptPiece("A")], sampling, max_tokens=200)
        text: list[str] = []
        for event in model.loaded.generate(request):
            if isinstance(event, TextEvent):
                text.append(event.text)
            elif event.finish_reason != "stop":
                return None
        return "".join(text)

    return answer


def fits(schema: Schema, text: str) -> bool:
    value = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def closed(**members: object) -> Schema:
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


NODE = closed(value={"type": "boolean"}, next={"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})
TREE = closed(kids={"type": "array", "items": {"$ref": "#"}, "maxItems": 2})
BOOL, NULL = {"type": "boolean"}, {"type": "null"}
SHORT = {"type": "string", "maxLength": 4}

# a schema, texts that its grammar lets through, and texts that it does not
CASES: list[Any] = [
    pytest.param(BOOL, ["true", "false"], ["null", '"true"', ""], id="boolean"),
    pytest.param(NULL, ["null"], ["nul"], id="null"),
    pytest.param({"type": "integer"}, ["0", "-12"], ["1.5", "01", '"1"'], id="integer"),
    pytest.param({"type": "number"}, ["1.5", "-2e8"], ["1.", "NaN"], id="number"),
    pytest.param(
        {"type": "integer", "minimum": 3, "maximum": 120},
        ["3", "99", "120"],
        ["2", "121"],
        id="range",
    ),
    pytest.param(
        {"type": "integer", "exclusiveMinimum": -2, "exclusiveMaximum": 1.5},
        ["-1", "0", "1"],
        ["-2", "2"],
        id="exclusive range",
    ),
    pytest.param(
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1.25},
        ["0", "0.5", "1.24", "1"],
        ["1.25", "-0.1", "1.3"],
        id="number in a range",
    ),
    pytest.param(
        {"type": "string"}, ['""', '"a \\" \\u00e9 \\ud83d\\ude00 é"'], ["a", '"\n"'], id="string"
    ),
    pytest.param({"type": "string"}, [], ['"\\ud83d"', '"\\ude00"', '"\\x"'], id="bad escapes"),
    pytest.param(
        {"type": "string", "minLength": 2, "maxLength": 3},
        ['"ab"', '"aé\\n"', '"\\ud83d\\ude00\\u0041"'],
        ['"a"', '"abcd"'],
        id="length",
    ),
    pytest.param(
        {"type": "string", "maxLength": 2000}, ['"' + "a" * 2000 + '"'], [], id="longest length"
    ),
    pytest.param(
        {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, ['"AB-12"'], ['"AB-"'], id="pattern"
    ),
    pytest.param(
        {"type": "string", "format": "date"}, ['"2024-01-31"'], ['"2024-02-31"'], id="format"
    ),
    pytest.param(
        {"type": ["string", "null"], "maxLength": 1}, ['"a"', "null"], ["1", '"ab"'], id="types"
    ),
    pytest.param(
        {"enum": ["a", 1, None, {"k": [1.5]}, 'q"\\\n']},
        ['"a"', "1", "null", '{"k": [1.5]}', '"q\\"\\\\\\n"'],
        ['"b"', "1.0"],
        id="enum",
    ),
    pytest.param(
        {"enum": ["", "a", "ab", "abc", "abd", "b", 1, 12]},
        ['""', '"a"', '"ab"', '"abc"', '"abd"', '"b"', "1", "12"],
        ['"', '"abx"', '"c"', "2", '"abcd"'],
        id="enum with common beginnings",
    ),
    pytest.param({"type": "string", "enum": ["a", 1]}, ['"a"'], ["1"], id="enum of one type"),
    pytest.param({"const": 3}, ["3"], ["4"], id="const"),
    pytest.param({"const": None}, ["null"], ["{}"], id="const null"),
    pytest.param(
        closed(a=BOOL, b=NULL),
        ['{"a": true, "b": null}', '{ "a":true,"b":null }'],
        ['{"a": true}', '{"b": null, "a": true}', '{"a": true, "b": null, "c": 1}', "{}"],
        id="required members in order",
    ),
    pytest.param(
        {"properties": {"a": BOOL, "b": NULL, "c": BOOL}, "required": ["b"]},
        ['{"b":null}', '{"a":true,"b":null}', '{"b":null,"c":true}'],
        ["{}", '{"a":true}', '{"b":null,}', '{,"b":null}', '{"b":null,"d":1}'],
        id="optional members",
    ),
    pytest.param(
        {"type": "object", "properties": {"a": BOOL, "b": BOOL}},
        ["{}", '{"a":true}', '{"b":true}', '{"a":true,"b":false}'],
        ['{"b":true,"a":true}', '{"c":1}'],
        id="all optional",
    ),
    pytest.param({"type": "object"}, ["{}", '{"x": [1, {}]}'], ["[]"], id="any object"),
    pytest.param(
        {"type": "object", "additionalProperties": {"type": "integer"}},
        ["{}", '{"x":1,"y":2}'],
        ['{"x":"1"}'],
        id="a map",
    ),
    pytest.param(
        {"properties": {"ab": BOOL}, "additionalProperties": NULL},
        ['{"ab":true,"a":null}', '{"abc":null,"b":null}', "{}"],
        ['{"ab":null}', '{"a":null,"ab":true}', '{"\\u0061b":null}'],
        id="other members have other names",
    ),
    pytest.param(
        {"type": "object", "required": ["z"]},
        ['{"z":1}', '{"z":1,"a":2}'],
        ["{}"],
        id="undescribed",
    ),
    pytest.param({"type": "object", "properties": {}}, ["{}"], ['{"a":1}'], id="no members"),
    pytest.param(closed(**{'a"\n': BOOL}), ['{"a\\"\\n":true}'], [], id="odd name"),
    pytest.param({"type": "array"}, ["[]", '[1,"a",[null]]'], ["{}"], id="any list"),
    pytest.param(
        {"items": BOOL, "minItems": 1, "maxItems": 3},
        ["[true]", "[true,false,true]"],
        ["[]", "[true,true,true,true]", "[1]", "[true,]"],
        id="list of a length",
    ),
    pytest.param(
        {"type": "array", "items": BOOL, "maxItems": 0}, ["[]"], ["[true]"], id="no items"
    ),
    pytest.param(
        {"prefixItems": [BOOL, NULL], "items": False, "minItems": 1},
        ["[true]", "[true,null]"],
        ["[]", "[null]", "[true,null,1]"],
        id="tuple",
    ),
    pytest.param(
        {"prefixItems": [BOOL], "items": NULL, "minItems": 2, "maxItems": 3},
        ["[true,null]", "[true,null,null]"],
        ["[true]", "[true,null,null,null]", "[null,null]"],
        id="tuple and more",
    ),
    pytest.param({"anyOf": [BOOL, {"const": "x"}]}, ["true", '"x"'], ["1"], id="anyOf"),
    pytest.param(
        {
            "type": "object",
            "properties": {"a": NULL, "b": NULL},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        ['{"a":null}', '{"b":null}', '{"a":null,"b":null}'],
        ["{}"],
        id="anyOf beside others",
    ),
    pytest.param({"oneOf": [BOOL, SHORT, {"type": "integer"}]}, ["true", "1"], ["1.5"], id="oneOf"),
    pytest.param(
        {"oneOf": [{"type": "object", "properties": {"k": {"const": k}, k: BOOL}} for k in "ab"]},
        ['{"k":"a"}', '{"k":"b","b":true}'],
        ["{}", '{"k":"a","b":true}', '{"k":"c"}'],
        id="oneOf told apart by a member",
    ),
    pytest.param(
        {
            "allOf": [
                closed(a=BOOL) | {"additionalProperties": True},
                {"properties": {"b": NULL}, "required": ["b"]},
            ]
        },
        ['{"a":true,"b":null}'],
        ['{"a":true}'],
        id="allOf",
    ),
    pytest.param(
        {"allOf": [{"type": "integer", "minimum": 2}, {"type": ["integer", "null"], "maximum": 3}]},
        ["2", "3"],
        ["1", "4", "null"],
        id="allOf of numbers",
    ),
    pytest.param(
        {"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": NULL}}, ["null"], ["1"], id="$ref"
    ),
    pytest.param(
        {"$ref": "#/$defs/a~1b%25", "title": "t", "$defs": {"a/b%": NULL}},
        ["null"],
        [],
        id="pointer",
    ),
    pytest.param(
        {"$defs": {"x": {"type": "integer"}}, "$ref": "#/$defs/x", "maximum": 1},
        ["1"],
        ["2"],
        id="$ref beside others",
    ),
    pytest.param(
        {"$defs": {"n": NODE}, "$ref": "#/$defs/n"},
        ['{"value":true,"next":{"value":false,"next":null}}'],
        ['{"value":true}'],
        id="recursive",
    ),
    pytest.param(TREE, ['{"kids":[{"kids":[]}]}'], ['{"kids":[1]}'], id="recursive root"),
    pytest.param(
        {"type": "string", "nullable": True, "maxLength": 1, "x-note": 1},
        ["null", '"a"'],
        ["1"],
        id="nullable",
    ),
    pytest.param(
        closed(a=BOOL)
        | {"title": "t", "description": "d", "default": {}, "examples": [], "$id": "x"},
        ['{"a":true}'],
        [],
        id="descriptions",
    ),
    pytest.param({}, ["1", '"a"', "[]", "{}", "null"], ["a"], id="anything"),
]


@pytest.mark.parametrize(("schema", "good", "bad"), CASES)
def test_a_grammar_is_its_schema(
    judge: Judge, schema: Schema, good: list[str], bad: list[str]
) -> None:
    grammar = schema_grammar(schema)
    standard = {key: value for key, value in schema.items() if key != "nullable"}
    for text in good:
        assert judge.accepts(grammar, text), text
        assert "nullable" in schema or fits(standard, text)
    for text in bad:
        assert not judge.accepts(grammar, text), text


@pytest.mark.parametrize(
    "schema", [param.values[0] for param in CASES], ids=[param.id for param in CASES]
)
def test_what_a_model_draws_fits(draw: Draw, schema: Schema) -> None:
    if schema.get("nullable"):
        schema = {"anyOf": [{"type": "string", "maxLength": 1}, NULL]}
    for seed in range(2):
        text = draw(schema, seed)
        assert text is None or fits(schema, text), text


SCALARS = st.sampled_from(
    [
        *(
            BOOL,
            NULL,
            SHORT,
            {"type": "integer"},
            {"type": "number", "minimum": -1, "maximum": 0.5},
        ),
        *({"const": "x"}, {"enum": [1, "y", None]}, {"type": "string", "format": "uuid"}),
        *(
            {"type": ["integer", "null"], "minimum": 7},
            {"type": "string", "pattern": "^[ab]{1,3}$"},
        ),
    ]
)


def nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    names = st.sampled_from(["a", "ab", "b", "é", 'q"'])
    objects = st.builds(
        lambda members, needed, extra: {
            "type": "object",
            "properties": members,
            "required": sorted(needed & members.keys()),
            **extra,
        },
        st.dictionaries(names, inner, max_size=4),
        st.sets(names),
        st.sampled_from([{}, {"additionalProperties": False}]),
    )
    arrays = st.builds(
        lambda prefix, items, least, more: {
            "type": "array",
            **({"prefixItems": prefix} if prefix else {}),
            "items": items,
            "minItems": least,
            "maxItems": least + more,
        },
        st.lists(inner, max_size=2),
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    choices = st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3))
    several = st.lists(inner, min_size=1, max_size=3)
    combined = st.builds(
        lambda how, some: {how: some}, st.sampled_from(["allOf", "oneOf"]), several
    )
    return objects | arrays | choices | combined


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(SCALARS, nested, max_leaves=8), st.integers(0, 2**31))
def test_schemas_of_any_shape(draw: Draw, schema: Schema, seed: int) -> None:
    try:
        text = draw(schema, seed)
    except SchemaError:
        assume(False)  # alternatives that overlap, demands that exclude each other
    assert text is None or fits(schema, text), text


def test_other_notation(judge: Judge) -> None:
    schema = closed(
        city={"type": "string"}, tags={"type": "array", "items": {"enum": ["a", True]}}, n=NULL
    )
    rules = Rules()
    grammar = rules.text(schema_rule(rules, schema, GEMMA))
    assert judge.accepts(grammar, '{city:<|"|>Par "is"<|"|>,tags:[<|"|>a<|"|>,true],n:null}')
    assert not judge.accepts(grammar, '{"city":"Paris","tags":[],"n":null}')
