"""The page at `/`, and the document behind it."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from geniex.server.errors import ANSWERS
from tests.geniex.server.conftest import DRAFT, MODEL, Serve


def document(client: TestClient) -> dict[str, Any]:
    response = client.get("/openapi.json")
    assert response.status_code == 200
    return dict(response.json())


@pytest.fixture
def client(shared_client: TestClient) -> TestClient:
    """One server for all of these: none of them changes it."""
    return shared_client


def test_the_page_loads_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"(?:https?:)?//[a-z]", page.text.split("ui = Swagger")[0])
    addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert len(addresses) == 3
    for address in addresses:
        assert address.startswith("/docs/static/")
        assert client.get(address).status_code == 200
    # and the browser is told to allow nothing else
    assert page.headers["content-security-policy"].startswith("default-src 'self';")


def test_the_first_example_is_the_tutorials(client: TestClient) -> None:
    post = document(client)["paths"]["/v1/chat/completions"]["post"]
    examples = post["requestBody"]["content"]["application/json"]["examples"]
    first, second, *_ = (example["value"] for example in examples.values())
    assert first == {
        "model": "google/gemma-4-26B-A4B-it-qat-q4_0-gguf:Q4_0",
        "messages": [{"role": "user", "content": "Hello! Briefly introduce yourself."}],
        "spec_type": "draft-mtp",
        "spec_draft_model": "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf:Q4_0",
        "spec_n_max": 3,
        "nctx": 8192,
        "max_completion_tokens": 2048,
        "temperature": 0.8,
        "top_p": 0.95,
        "stream": False,
    }
    assert (second["model"], second["spec_draft_model"]) == (MODEL, DRAFT)


def test_every_example_but_the_tutorials_is_answered(client: TestClient) -> None:
    asked = 0
    for path, methods in document(client)["paths"].items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {})
        for name, example in body.get("application/json", {}).get("examples", {}).items():
            response = client.post(path, json=example["value"])
            # what it names is nowhere in the tests
            assert response.status_code == (404 if name == "mtp" else 200), response.text
            asked += 1
    assert asked >= 5


def test_every_operation_declares_its_errors(client: TestClient) -> None:
    found = document(client)
    ids = []
    for path, methods in found["paths"].items():
        for operation in methods.values():
            answers = operation["responses"]
            assert {str(status) for status in ANSWERS} <= set(answers), path
            assert "422" not in answers
            ids.append(operation["operationId"])
    assert len(set(ids)) == len(ids)
    assert "ErrorBody" in found["components"]["schemas"]
    assert "HTTPValidationError" not in found["components"]["schemas"]


@pytest.mark.parametrize("key", [None, "secret"])
def test_the_key_is_declared_where_it_is_asked_for(serve: Serve, key: str | None) -> None:
    found = document(serve(api_key=key).client)
    assert ("security" in found) == (key is not None)
    assert "secret" not in str(found)
