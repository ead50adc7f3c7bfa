"""Which web pages may have something done: those of the server, and those that were allowed."""

import pytest
from starlette.testclient import TestClient

from tests.geniex.server.conftest import Serve

LOAD = "/v1/models/geniex/tiny-chat/load"
UNLOAD = "/v1/models/geniex/tiny-chat/unload"
CHAT = "http://chat.example.org"
EVIL = "http://evil.example"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": EVIL}, id="another site"),
        pytest.param({"origin": f"{EVIL}:80"}, id="with a port"),
        pytest.param({"origin": "http://testserver:8080"}, id="another port"),
        pytest.param({"origin": "https://testserver"}, id="another default port"),
        pytest.param({"origin": "http://testserver.evil.example"}, id="a longer name"),
        pytest.param({"origin": "http://testserver@evil.example"}, id="a user"),
        pytest.param({"origin": "null"}, id="no origin at all"),
        pytest.param({"origin": ""}, id="empty"),
        pytest.param({"origin": "http://[::1"}, id="no address"),
        pytest.param({"origin": "http://testserver:x"}, id="no port"),
        pytest.param({"sec-fetch-site": "cross-site"}, id="cross-site"),
        pytest.param({"sec-fetch-site": "cross-site", "origin": EVIL}, id="both"),
    ],
)
@pytest.mark.parametrize("path", [LOAD, UNLOAD, "/v1/chat/completions", "/v1/nothing"])
def test_pages_of_others_have_nothing_done(
    shared_client: TestClient, path: str, headers: dict[str, str]
) -> None:
    host = {"host": "testserver:80"} if "https" in headers.get("origin", "") else {}
    response = shared_client.post(path, headers={**headers, **host})
    assert response.status_code == 403
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "origin_not_allowed")
    assert "`--origins`" in error["message"]
    assert shared_client.get("/v1/ps").json()["data"] == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_whatever_the_method(shared_client: TestClient, method: str) -> None:
    response = shared_client.request(method, LOAD, headers={"origin": EVIL})
    assert response.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no page"),
        pytest.param({"origin": "http://testserver"}, id="its own"),
        pytest.param({"origin": "http://TestServer:80"}, id="its own, spelled out"),
        pytest.param(
            {"origin": "http://[::1]:18181", "host": "[::1]:18181"}, id="its own, by address"
        ),
        pytest.param({"origin": "https://localhost", "host": "localhost"}, id="behind TLS"),
        pytest.param(
            {"origin": "http://testserver", "sec-fetch-site": "same-origin"}, id="as browsers do"
        ),
        pytest.param({"sec-fetch-site": "none"}, id="the user"),
    ],
)
def test_others_are_answered(shared_client: TestClient, headers: dict[str, str]) -> None:
    assert shared_client.post(UNLOAD, headers=headers).status_code == 200


LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"origin": EVIL}, 403, id="a page that asks"),
        pytest.param({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403, id="img"),
        pytest.param({**LINK, "sec-fetch-dest": "iframe"}, 403, id="a frame"),
        pytest.param({**LINK, "origin": EVIL}, 403, id="a link that is none"),
        pytest.param(LINK, 200, id="a link that is followed"),
    ],
)
def test_pages_of_others_do_not_even_look(
    shared_client: TestClient, headers: dict[str, str], status: int
) -> None:
    for path in ("/", "/v1/models"):
        assert shared_client.get(path, headers=headers).status_code == status
        assert shared_client.head(path, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("origins", "origin", "status"),
    [
        ((CHAT,), CHAT, 200),
        ((CHAT,), EVIL, 403),
        ((CHAT,), None, 403),
        (("*",), EVIL, 200),
        (("*",), "null", 200),
        (("*",), None, 200),
    ],
)
def test_those_that_the_operator_allows(
    serve: Serve, origins: tuple[str, ...], origin: str | None, status: int
) -> None:
    headers = {"sec-fetch-site": "cross-site", **({"origin": origin} if origin else {})}
    response = serve(origins=origins).client.post(UNLOAD, headers=headers)
    assert response.status_code == status


def test_before_the_key_is_looked_at(serve: Serve) -> None:
    response = serve(api_key="secret").client.post(UNLOAD, headers={"origin": EVIL})
    assert response.status_code == 403


def test_the_document_knows_of_it(shared_client: TestClient) -> None:
    paths = shared_client.get("/openapi.json").json()["paths"]
    assert "403" in paths["/v1/models/{model}/unload"]["post"]["responses"]
    assert "403" in paths["/v1/chat/completions"]["post"]["responses"]
