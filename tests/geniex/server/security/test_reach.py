"""Addresses and files in all other fields of a request: none is ever turned to.

What a field may not hold is refused by its name; images and audio are left out, as documented, and
the text is answered.
"""

from typing import Any

import pytest

from tests.geniex.server.security.conftest import MODEL, Watched
from tests.geniex.server.security.wire import as_json, head, post, send

ADDRESSES = {
    "a site": "{site}/picture.png",
    "a site by name": "http://localhost:9/canary.png",
    "by six": "http://[::1]:9/canary.png",
    "by one number": "http://2130706433:9/canary.png",
    "a cloud": "http://169.254.169.254/latest/meta-data/canary",
    "a user before": "http://user:canary@127.0.0.1:9/x",
    "by TLS": "https://canary.invalid/picture.png",
    "by FTP": "ftp://127.0.0.1:9/canary",
    "a file": "file://{dir}/secret.txt",
    "a file on a share": "file://127.0.0.1/canary/secret.txt",
    "a path": "{dir}/secret.txt",
    "a pipe": "{dir}/pipe",
    "a path of the current folder": "canary.gguf",
    "a drive": "C:\\canary\\secret.txt",
    "a share": "\\\\127.0.0.1\\canary\\secret.txt",
    "inline": "data:image/png;base64,aGk=",
    "inline and huge": "data:image/png;base64," + "A" * 500_000,
    "inline and broken": "data:image/svg+xml,<svg onload='canary'/>",
    "a schema": "jar:file://{dir}/x.jar!/canary",
    "a program": "php://filter/resource={dir}/secret.txt",
}


def chat(**fields: Any) -> bytes:
    """A question, with these fields."""
    plain = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    return post("/v1/chat/completions", as_json(**{**plain, **fields}))


def by(schema: dict[str, Any]) -> dict[str, Any]:
    """The field of an answer by a schema."""
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    }


def part(kind: str, value: Any) -> bytes:
    """A question with a part of a kind."""
    content = [{"type": "text", "text": "Hi"}, {"type": kind, kind: value}]
    return chat(messages=[{"role": "user", "content": content}])


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES.keys())
@pytest.mark.parametrize("kind", ["image_url", "input_audio"])
def test_images_and_audio(watched: Watched, kind: str, address: str) -> None:
    address = watched.filled(address)
    value = {"url": address} if kind == "image_url" else {"data": address, "format": "wav"}
    reply = send(watched.url, part(kind, value))
    assert reply.status == 200, reply
    assert b"ignoring" in reply.body and b"root:x" not in reply.body
    assert watched.turned_to() == []
    watched.answers()


@pytest.mark.parametrize("address", ["{site}/x", "file://{dir}/secret.txt", "{dir}/pipe"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"$ref": 0}},
                }
            },
            (400, "unsupported_schema"),
            id="a schema elsewhere",
        ),
        pytest.param(
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"allOf": [{"$ref": 0}]}},
                }
            },
            (400, "unsupported_schema"),
            id="a part of a schema elsewhere",
        ),
        pytest.param({"compute": 0}, (400, "invalid_value"), id="a unit"),
        pytest.param({"runtime": 0}, (200, None), id="a field that is none"),
        pytest.param({"mmproj": 0, "lora": 0, "template": 0}, (200, None), id="more of them"),
        pytest.param({"user": 0, "metadata": {"url": 0}}, (200, None), id="words about the user"),
        pytest.param({"stop": [0]}, (200, None), id="where to stop"),
        pytest.param({"grammar_string": 0}, (400, "invalid_value"), id="a grammar"),
        pytest.param({"chat_template_kwargs": {"documents": [0]}}, (200, None), id="a template's"),
        pytest.param({"store": True}, (400, "unsupported_parameter"), id="a store"),
        pytest.param({"web_search_options": {}}, (400, "unsupported_parameter"), id="a search"),
        pytest.param({"prediction": {"content": 0}}, (400, "unsupported_parameter"), id="a guess"),
    ],
)
def test_other_fields(
    watched: Watched, fields: dict[str, Any], expected: tuple[int, str | None], address: str
) -> None:
    address = watched.filled(address)
    reply = send(watched.url, chat(**_placed(fields, address)))
    assert (reply.status, reply.code) == expected, reply
    assert b"root:x" not in reply.body
    assert watched.turned_to() == []
    watched.answers()


def said(**part: Any) -> dict[str, Any]:
    """An input of one message with one part."""
    return {"input": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(said(type="input_image", image_url=0), id="an image"),
        pytest.param(said(type="input_image", file_id=0), id="an image that is kept"),
        pytest.param(said(type="input_file", file_url=0), id="a file"),
        pytest.param(said(type="input_file", file_id=0), id="a file that is kept"),
        pytest.param({"tools": [{"type": "mcp", "server_url": 0}]}, id="a server of tools"),
        pytest.param({"tools": [{"type": "file_search", "vector_store_ids": [0]}]}, id="a search"),
        pytest.param({"previous_response_id": 0}, id="what was before"),
        pytest.param({"conversation": 0}, id="a conversation"),
        pytest.param({"prompt": {"id": 0}}, id="a prompt that is kept"),
    ],
)
@pytest.mark.parametrize("address", ["{site}/x", "file://{dir}/secret.txt", "{dir}/pipe"])
def test_responses(watched: Watched, fields: dict[str, Any], address: str) -> None:
    address = watched.filled(address)
    plain = {"model": MODEL, "max_output_tokens": 1, "input": "Hi"}
    body = as_json(**{**plain, **_placed(fields, address)})
    reply = send(watched.url, post("/v1/responses", body))
    assert reply.status in (200, 400), reply
    assert b"root:x" not in reply.body
    assert watched.turned_to() == []
    watched.answers()


@pytest.mark.parametrize(
    "header",
    [
        *(
            "Referer",
            "X-Request-Id",
            "traceparent",
            "X-Forwarded-For",
            "Forwarded",
            "X-Original-Url",
        ),
        *("X-Rewrite-Url", "Destination", "Link", "Range", "If-None-Match", "Proxy", "Via"),
    ],
)
def test_headers(watched: Watched, header: str) -> None:
    reply = send(
        watched.url, head("/v1/models", [(header, f"{watched.site}/canary")], host="localhost")
    )
    assert reply.status == 200
    assert "canary" not in "".join(reply.headers.values())
    assert watched.turned_to() == []


@pytest.mark.parametrize(
    "target",
    [
        *("/docs/static/../../../../etc/passwd", "/docs/static/..%2f..%2f..%2fetc%2fpasswd"),
        *("/docs/static/%2e%2e/%2e%2e/__init__.py", "/docs/static//etc/passwd"),
        *("/docs/static/..%5c..%5cwin.ini", "/docs/static/%00", "/docs/static/" + "a" * 5000),
        *("/docs/static/.%2e/..%2f", "/docs/static/C:%5cwindows%5cwin.ini", "/docs/static"),
        *("/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/.env", "/.git/config", "/%2e%2e/"),
    ],
)
def test_files_of_the_page(watched: Watched, target: str) -> None:
    reply = send(watched.url, head(target, host="localhost"))
    assert reply.status in (400, 404)
    assert b"root:" not in reply.body and b"import" not in reply.body
    assert [event for event in watched.turned_to() if event[0] == "open"] == []
    watched.answers()


def _placed(value: Any, address: str) -> Any:
    """Fields with the address in the place of every 0."""
    if isinstance(value, dict):
        return {name: _placed(inner, address) for name, inner in value.items()}
    if isinstance(value, list):
        return [_placed(inner, address) for inner in value]
    return address if value == 0 and value is not False else value
