"""schemathesis over the served document: no 500, and no answer that the document does not know."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.geniex.server.door import Runtime, opened

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The document of a server over a scripted runtime, which answers it in this process."""
    data = tmp_path_factory.mktemp("data")
    with opened(Runtime(), data, "/", {}) as door:
        yield schemathesis.openapi.from_asgi("/openapi.json", Living(door.client.app))


class Living:
    """An application that is running already: it is neither to be started nor to be ended."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})


EXAMPLES = int(os.environ.get("GENIEX_TEST_EXAMPLES", "15"))  # of each kind, for each operation
OPERATIONS = (
    "GET /health",
    "GET /metrics",
    "GET /ready",
    "GET /v1",
    "GET /v1/models",
    "GET /v1/models/{model}",
    "GET /v1/ps",
    "POST /detokenize",
    "POST /tokenize",
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/detokenize",
    "POST /v1/embeddings",
    "POST /v1/models/{model}/load",
    "POST /v1/models/{model}/unload",
    "POST /v1/responses",
    "POST /v1/tokenize",
)


def test_every_operation_of_the_document_is_tried(document: Any) -> None:
    found = {each.ok().label for each in document.get_all_operations()}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_declared(document: Any, label: str) -> None:
    operations = (each.ok() for each in document.get_all_operations())
    operation = next(each for each in operations if each.label == label)
    cases = operation.as_strategy()
    if operation.body:
        # as often with a body that is wrong
        cases |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    answered()
