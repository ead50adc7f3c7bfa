"""Whether the server is ready, and when it says that it is not."""

import time

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.fake import FakeRuntime
from tests.geniex.server.conftest import MODEL, Serve, Served

PATIENCE = 30.0


def await_ready(served: Served, status: int, text: str = "") -> str:
    """Wait for an answer of `/ready`, and give its body."""
    end = time.monotonic() + PATIENCE
    while True:
        response = served.client.get("/ready")
        if response.status_code == status and text in response.text:
            return response.text
        assert time.monotonic() < end, response.text
        time.sleep(0.01)


def test_at_once_where_nothing_is_to_be_loaded(serve: Serve) -> None:
    assert serve().client.get("/ready").json() == {"status": "ok"}


def test_once_the_first_models_are_loaded(serve: Serve) -> None:
    served = serve(preload=(MODEL,))
    await_ready(served, 200)
    assert len(served.runtime.loads) == 1


def test_never_where_the_first_one_does_not_load(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    broken = FakeRuntime(name="llama_cpp", load_error=LoadError("the file is cut off"))
    served = serve(broken, preload=(MODEL,))
    text = await_ready(served, 503, "could not be loaded")
    assert "the file is cut off" in text
    assert "the file is cut off" in caplog.text
    assert served.client.get("/health").status_code == 200


def test_which_server_this_is(serve: Serve) -> None:
    about = serve().client.get("/v1").json()
    assert (about["object"], about["name"]) == ("server", "geniex")
    assert about["version"]
