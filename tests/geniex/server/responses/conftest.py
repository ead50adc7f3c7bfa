"""The route of responses over a scripted runtime."""

from collections.abc import Iterator

import pytest

from tests.geniex.server.door import Runtime, opened
from tests.geniex.server.responses.judge import Judge


@pytest.fixture(scope="module")
def door(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    """The server over the runtime that a test brings along, by default one that greets."""
    runtime = getattr(request, "param", None) or Runtime()
    data = tmp_path_factory.mktemp("data")
    with opened(runtime, data, "/v1/responses", {"input": "Hi"}) as door:
        yield Judge(door)
