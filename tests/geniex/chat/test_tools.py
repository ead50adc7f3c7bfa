"""Tools and choices in the OpenAI form."""

import pytest

from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolChoice, checked, new_call_id
from geniex_catalogue.errors import UsageError

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}


@pytest.mark.parametrize(
    ("data", "tool"),
    [
        pytest.param(
            {"type": "function", "function": FUNCTION}, Tool("f", "d", SCHEMA, True), id="chat"
        ),
        pytest.param(
            {"type": "function", **FUNCTION}, Tool("f", "d", SCHEMA, True), id="responses"
        ),
        pytest.param({"type": "function", "function": {"name": "f"}}, Tool("f"), id="name alone"),
        pytest.param(
            {
                "type": "function",
                "function": {"name": "f", "description": None, "parameters": None, "strict": None},
            },
            Tool("f"),
            id="null is absent",
        ),
    ],
)
def test_tools_are_read(data: object, tool: Tool) -> None:
    assert Tool.from_dict(data) == tool


def test_templates_see_every_field() -> None:
    assert Tool("f").as_dict() == {
        "type": "function",
        "function": {
            "name": "f",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        },
    }


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param("f", "object", id="text"),
        pytest.param({"type": "web_search"}, "web_search", id="type"),
        pytest.param({"type": "function"}, "name", id="no function"),
        pytest.param({"type": "function", "function": 3}, "function", id="function a number"),
        pytest.param({"function": {"name": ""}}, "name", id="empty name"),
        pytest.param({"function": {"name": "a b"}}, "`a b`", id="name"),
        pytest.param({"function": {"name": "f", "parameters": []}}, "parameters", id="parameters"),
        pytest.param(
            {"function": {"name": "f", "parameters": {"type": "string"}}}, "object", id="no object"
        ),
        pytest.param(
            {"function": {"name": "f", "description": 1}}, "description", id="description"
        ),
        pytest.param({"function": {"name": "f", "strict": 1}}, "strict", id="strict"),
    ],
)
def test_what_is_no_tool_is_refused(data: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Tool.from_dict(data)


def test_two_tools_of_one_name_are_refused() -> None:
    assert checked([Tool("f"), Tool("g")]) == (Tool("f"), Tool("g"))
    with pytest.raises(UsageError, match="`f`"):
        checked([Tool("f"), Tool("f")])


NAMED = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        (NAMED, ToolChoice("required", ("f",))),
        ({"type": "function", "name": "f"}, ToolChoice("required", ("f",))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}},
            ToolChoice("auto", ("f",)),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
            ToolChoice("required", ("f",)),
        ),
    ],
)
def test_choices_are_read(value: object, choice: ToolChoice) -> None:
    assert ToolChoice.from_dict(value) == choice


@pytest.mark.parametrize(
    "value",
    [
        *("always", 3, [], {}, {"type": "function"}, {"type": "custom", "name": "f"}),
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    ],
)
def test_what_is_no_choice_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="tool"):
        ToolChoice.from_dict(value)


def test_a_choice_picks_tools() -> None:
    tools = (Tool("f"), Tool("g"))
    assert ToolChoice("none").pick(tools) == ()
    assert ToolChoice("required").pick(tools) == tools
    assert ToolChoice("auto", ("g",)).pick(tools) == (Tool("g"),)
    with pytest.raises(UsageError, match="`h`"):
        ToolChoice("required", ("h",)).pick(tools)
    with pytest.raises(UsageError, match="no `tools`"):
        ToolChoice("required").pick(())


def test_ids_are_unique() -> None:
    assert len({new_call_id() for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, ResponseFormat("json_object")),
        ({"type": "json_object", "schema": SCHEMA}, ResponseFormat("json_schema", SCHEMA)),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            ResponseFormat("json_schema", SCHEMA),
        ),
        (
            {"type": "json_schema", "name": "n", "schema": SCHEMA},
            ResponseFormat("json_schema", SCHEMA),
        ),
    ],
)
def test_response_formats_are_read(data: object, form: ResponseFormat | None) -> None:
    assert ResponseFormat.from_dict(data) == form


@pytest.mark.parametrize(
    "data",
    [
        "json",
        {"type": "xml"},
        {},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": []},
        {"type": "json_schema", "json_schema": {"schema": "x"}},
    ],
)
def test_what_is_no_response_format_is_refused(data: object) -> None:
    with pytest.raises(UsageError, match="response_format"):
        ResponseFormat.from_dict(data)
