"""What is wrong names the field of the request that it is about, on every route."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.geniex.server.door import Door, Runtime, opened

CHAT, TEXT, VECTORS = "chat/completions", "completions", "embeddings"
RESPONSES = "responses"
HELLO = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    TEXT: {"prompt": "Hi"},
    VECTORS: {"input": "Hi"},
    RESPONSES: {"input": "Hi"},
    "tokenize": {"content": "Hi"},
    "models/geniex/tiny-chat/load": {},
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "look", "parameters": {"type": "object"}}
LONG = "x" * 100


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server over a scripted runtime, one for the module."""
    runtime = Runtime(chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")
    with opened(runtime, tmp_path_factory.mktemp("data"), "/", {}) as made:
        yield made


def refused(door: Door, route: str, fields: dict[str, Any]) -> dict[str, Any]:
    response = door.client.post(f"/v1/{route}", json={**BODIES[route], **fields})
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize(
    ("route", "fields", "param", "code"),
    [
        (CHAT, {"messages": [{"role": "user", "content": LONG}]}, "messages", None),
        (TEXT, {"prompt": LONG}, "prompt", None),
        (VECTORS, {"input": LONG}, "input", None),
        (RESPONSES, {"input": LONG}, "input", None),
        (TEXT, {"prompt": [9999999]}, "prompt", "invalid_value"),
        (VECTORS, {"input": [9999999]}, "input", "invalid_value"),
        (VECTORS, {"input": [[1], [-5]]}, "input", "invalid_value"),
        (CHAT, {"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "invalid_value"),
        (
            RESPONSES,
            {"chat_template_kwargs": {"tools": []}},
            "chat_template_kwargs",
            "invalid_value",
        ),
        (CHAT, {"tools": [TOOL, TOOL]}, "tools", "invalid_value"),
        (RESPONSES, {"tools": [FLAT, FLAT]}, "tools", "invalid_value"),
        (RESPONSES, {"input": []}, "input", "invalid_value"),
        (RESPONSES, {"input": 5}, "input", "invalid_value"),
        (RESPONSES, {"input": [5]}, "input[0]", "invalid_value"),
        (RESPONSES, {"input": [{"x": 1}]}, "input[0].type", "missing_required_parameter"),
    ],
)
def test_a_value_that_a_model_cannot_take(
    door: Door, route: str, fields: dict[str, Any], param: str, code: str | None
) -> None:
    error = refused(door, route, {"nctx": 64, **fields})
    assert (error["param"], error["code"]) == (param, code or "context_length_exceeded")


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    ("compute", "code"),
    [
        ("warp drive", "invalid_value"),
        ("nonsense0", "invalid_value"),
        ("npu", "no_runtime"),
    ],
)
def test_a_compute_unit_that_is_not_there(door: Door, route: str, compute: str, code: str) -> None:
    error = refused(door, route, {"compute": compute})
    assert (error["param"], error["code"]) == ("compute", code)


@pytest.mark.parametrize("route", BODIES)
def test_a_context_that_no_memory_holds(door: Door, route: str) -> None:
    error = refused(door, route, {"nctx": 1 << 30})
    assert (error["param"], error["code"]) == ("nctx", "no_runtime")


@pytest.mark.parametrize("route", [CHAT, RESPONSES, "tokenize"])
def test_a_body_that_is_missing(door: Door, route: str) -> None:
    error = door.client.post(f"/v1/{route}").json()["error"]
    assert error["message"] == "there is no body: send JSON"
    assert error["code"] == "missing_required_parameter"


@pytest.mark.parametrize("route", [CHAT, TEXT, RESPONSES])
@pytest.mark.parametrize("kind", ["draft-mtp", "draft-simple"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_draft_that_is_needed(door: Door, route: str, kind: str, stream: bool) -> None:
    error = refused(door, route, {"spec_type": kind, "stream": stream})
    assert error["param"] == "spec_draft_model"
    assert "needs a draft model" in error["message"]


def part(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [fields]}]}


@pytest.mark.parametrize(
    ("route", "fields", "told"),
    [
        (CHAT, {"stop": ["a", ""]}, "`stop`: an empty stop string is not allowed"),
        (CHAT, {"stop": ""}, "`stop`: an empty stop string is not allowed"),
        (TEXT, {"stop": ["a", ""]}, "`stop`: an empty stop string is not allowed"),
        (TEXT, {"stop": ["a"] * 65}, "`stop`: no more than 64 stop strings are allowed"),
        (CHAT, {"stop": ["a", 5]}, "`stop`: it takes a text or a list of texts"),
        (VECTORS, {"input": ""}, "`input`: an empty text is not allowed"),
        (VECTORS, {"input": ["a", ""]}, "`input`: an empty text is not allowed"),
        (VECTORS, {"input": []}, "`input`: an empty list is not allowed"),
        (VECTORS, {"input": [[1], []]}, "`input`: an empty list of tokens is not allowed"),
        (VECTORS, {"input": 5}, "`input`: it takes a text or token ids, or a list of either"),
        (TEXT, {"prompt": []}, "`prompt`: an empty list is not allowed"),
        (VECTORS, {"input": ["a"] * 2049}, "`input`: no more than 2048 inputs are allowed"),
        (TEXT, {"prompt": [*[1] * 2048, "a"]}, "`prompt`: no more than 2048 inputs are allowed"),
        (TEXT, {"prompt": [[]]}, "`prompt`: an empty list of tokens is not allowed"),
        (CHAT, part(type="text"), "the `text` of a content part of type `text` is missing"),
        (CHAT, part(type="text", text=5), "the `text` of a content part of type `text` is no text"),
        (CHAT, part(text="x"), "a content part needs a `type`"),
        (CHAT, part(type="smell"), "a content part of type `smell` is not understood"),
        (
            RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "`input[0].content[0].text` is missing",
        ),
    ],
)
def test_what_is_wrong_is_said(door: Door, route: str, fields: dict[str, Any], told: str) -> None:
    assert refused(door, route, fields)["message"] == told


LABELS = ("metadata", "user", "safety_identifier", "prompt_cache_key")


@pytest.mark.parametrize(
    ("route", "field"),
    [
        *((route, field) for route in (CHAT, RESPONSES) for field in LABELS),
        (TEXT, "user"),
        (VECTORS, "user"),
    ],
)
def test_a_label_has_its_type(door: Door, route: str, field: str) -> None:
    error = refused(door, route, {field: [5]})
    assert (error["param"], error["code"]) == (field, "invalid_value")
    right = {"a": "b"} if field == "metadata" else "me"
    for value in (right, None):
        body = {**BODIES[route], field: value}
        assert door.client.post(f"/v1/{route}", json=body).status_code == 200
