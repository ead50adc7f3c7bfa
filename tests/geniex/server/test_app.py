"""What holds for every route: ids, methods, slashes, limits, keys, origins."""

import logging
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from geniex.server.state import ServerState
from geniex_runtimes.errors import GenerationError
from tests.geniex.server.conftest import MODEL, Serve

OK, ERRORS = "http://chat.example.org", "http://other.example.org"


def error_of(response: Any) -> dict[str, Any]:
    """The error of an answer, after a look at its shape."""
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return dict(body["error"])


@pytest.fixture
def client(shared_client: TestClient) -> TestClient:
    """One server for all of these: none of them changes it."""
    return shared_client


class TestRoutes:
    @pytest.mark.parametrize(
        "path",
        [
            *("/v1", "/v1/", "/models", "/v1/models", "/v1/models/", "//v1/models", "/v1/ps"),
            *("/health", "/ready", "/metrics", "/", "/docs", "/openapi.json"),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_it_answers(self, client: TestClient, method: str, path: str) -> None:
        # the leading slashes must reach the server
        response = client.request(method, f"http://testserver{path}")
        assert response.status_code == 200
        assert (len(response.content) > 0) == (method == "GET")
        assert int(response.headers["content-length"]) > 0

    @pytest.mark.parametrize("path", ["/nope", "/v1/nope", "/v2/models", "/docs/static/none.js"])
    def test_no_such_route(self, client: TestClient, path: str) -> None:
        response = client.get(path)
        assert response.status_code == 404
        if not path.startswith("/docs/"):
            assert error_of(response)["code"] == "route_not_found"

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            *(("POST", "/health"), ("DELETE", f"/v1/models/{MODEL}"), ("GET", "/tokenize")),
            *(("PUT", f"/v1/models/{MODEL}/load"), ("GET", "/v1/chat/completions")),
            *(("OPTIONS", "/v1/models"), ("HEAD", "/tokenize"), ("PUT", "/v1/chat/completions")),
        ],
    )
    def test_not_this_method(self, client: TestClient, method: str, path: str) -> None:
        response = client.request(method, path)
        assert response.status_code == 405
        takes_post = path.endswith(("/load", "/tokenize", "/completions"))
        assert response.headers["allow"] == ("POST" if takes_post else "GET")
        if method != "HEAD":
            assert error_of(response)["code"] == "method_not_allowed"

    def test_each_answer_has_an_id(self, client: TestClient) -> None:
        ids = [client.get(path).headers["x-request-id"] for path in ("/health", "/nope", "/v1")]
        assert len(set(ids)) == 3
        assert all(re.fullmatch(r"req_[0-9a-f]{32}", name) for name in ids)

    @pytest.mark.parametrize(
        ("given", "kept"), [("abc-1:2.3", True), ("a b", False), ("x" * 200, False), ("", False)]
    )
    def test_the_clients_own_id(self, client: TestClient, given: str, kept: bool) -> None:
        name = client.get("/health", headers={"x-request-id": given}).headers["x-request-id"]
        assert (name == given) == kept

    def test_the_log_has_a_line_for_each(
        self, client: TestClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "geniex.server"):
            client.get("/a%0Ab%1B?key=secret")
        [line] = [r.getMessage() for r in caplog.records if r.name == "geniex.server"]
        assert line == "GET /a%0Ab%1B 404"


class TestBodies:
    @pytest.mark.parametrize(
        ("body", "headers", "code"),
        [
            pytest.param(b"{", {}, "invalid_json", id="cut off"),
            pytest.param(b"", {}, "missing_required_parameter", id="empty"),
            pytest.param(b"[1]", {}, "invalid_value", id="a list"),
            pytest.param(b"null", {}, "invalid_value", id="null"),
            pytest.param(b'"x"', {}, "invalid_value", id="a text"),
            pytest.param(b'{"content":"\xff"}', {}, "invalid_json", id="no UTF-8"),
            pytest.param(b"[" * 100_000, {}, "invalid_json", id="deep"),
            pytest.param(b'{"content": 1' + b"0" * 5000 + b"}", {}, "invalid_json", id="digits"),
            pytest.param(b'{"content": 3}', {}, "invalid_value", id="wrong type"),
            pytest.param(
                b'{"content":"x"}',
                {"content-type": "text/plain", "origin": "http://testserver"},
                "invalid_content_type",
                id="a page of its own",
            ),
            pytest.param(
                b'{"content":"x"}',
                {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "none"},
                "invalid_content_type",
                id="a browser",
            ),
            pytest.param(
                b'{"content":"x"}',
                {"content-type": "application/xml"},
                "invalid_content_type",
                id="another type",
            ),
        ],
    )
    def test_what_does_not_parse(
        self, client: TestClient, body: bytes, headers: dict[str, str], code: str
    ) -> None:
        headers = {"content-type": "application/json", **headers}
        response = client.post("/tokenize", content=body, headers=headers)
        assert response.status_code == 400
        error = error_of(response)
        assert error["code"] == code
        assert error["type"] == "invalid_request_error"

    @pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
    def test_a_tool_that_says_no_type_means_json(self, client: TestClient, kind: str) -> None:
        headers = {"content-type": kind} if kind else {}
        response = client.post("/tokenize", content=b'{"content":"x"}', headers=headers)
        assert response.status_code == 200 and response.json()["tokens"]

    def test_the_field_is_named(self, client: TestClient) -> None:
        response = client.post("/detokenize", json={"tokens": [1, "x"]})
        error = error_of(response)
        assert error["param"] == "tokens[1]"
        assert "`tokens[1]`" in error["message"]

    def test_half_a_character(self, client: TestClient) -> None:
        response = client.post(
            "/tokenize",
            content=rb'{"content": "x", "model": "\ud800"}',
            headers={"content-type": "application/json"},
        )
        assert response.status_code in (400, 404)
        assert error_of(response)

    def test_a_body_without_a_model_is_for_the_default_one(self, serve: Serve) -> None:
        client = serve(settings={"model": "nobody/chosen"}).client
        response = client.post("/v1/completions", json={"prompt": "Hi"})
        assert response.status_code == 404
        assert "`nobody/chosen`" in error_of(response)["message"]

    def test_a_body_that_is_too_large(self, serve: Serve) -> None:
        client = serve(max_body=1000).client
        assert client.post("/tokenize", json={"content": "x" * 900}).status_code == 200
        response = client.post("/tokenize", json={"content": "x" * 1000})
        assert response.status_code == 413
        assert error_of(response)["code"] == "request_too_large"

    def test_a_body_that_does_not_say_its_length(self, serve: Serve) -> None:
        client = serve(max_body=1000).client

        def pieces() -> Any:
            yield b'{"content": "'
            for _ in range(20):
                yield b"x" * 100
            yield b'"}'

        response = client.post(
            "/tokenize", content=pieces(), headers={"content-type": "application/json"}
        )
        assert response.status_code == 413
        assert error_of(response)["code"] == "request_too_large"


class TestKey:
    @pytest.mark.parametrize(
        ("header", "status"),
        [
            pytest.param(None, 401, id="none"),
            pytest.param("Bearer wrong", 401, id="wrong"),
            pytest.param("Bearer ", 401, id="empty"),
            pytest.param("Basic secret", 401, id="other scheme"),
            pytest.param("secret", 401, id="no scheme"),
            pytest.param("Bearer secret2", 401, id="longer"),
            pytest.param("Bearer secr\xe9t", 401, id="not ASCII"),
            pytest.param("Bearer secret", 200, id="right"),
            pytest.param("bearer secret", 200, id="small letters"),
        ],
    )
    @pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/ps"])
    def test_it_is_asked_for(
        self, serve: Serve, path: str, header: str | None, status: int
    ) -> None:
        client = serve(api_key="secret").client
        headers = {} if header is None else {"authorization": header.encode("latin-1")}
        response = client.get(path, headers=headers)  # type: ignore[arg-type]
        assert response.status_code == status
        if status == 401:
            assert error_of(response)["code"] == "invalid_api_key"
            assert response.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize("path", ["/", "/health", "/ready", "/openapi.json"])
    def test_not_where_there_is_no_secret(self, serve: Serve, path: str) -> None:
        assert serve(api_key="secret").client.get(path).status_code == 200

    @pytest.mark.parametrize("path", ["//metrics", "/v1/models/", "//v1//models"])
    def test_no_way_around(self, serve: Serve, path: str) -> None:
        assert serve(api_key="secret").client.get(f"http://testserver{path}").status_code != 200

    def test_any_key_where_none_is_asked_for(self, client: TestClient) -> None:
        headers = {"authorization": "Bearer sk-whatever"}
        assert client.get("/v1/models", headers=headers).status_code == 200


class TestOrigins:
    @pytest.mark.parametrize(
        "origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"]
    )
    def test_those_of_this_machine_by_default(self, client: TestClient, origin: str) -> None:
        response = client.get("/v1/models", headers={"origin": origin})
        assert response.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in response.headers
        assert "Origin" in response.headers["vary"]

    def test_no_others_by_default(self, client: TestClient) -> None:
        response = client.get("/v1/models", headers={"origin": OK})
        assert "access-control-allow-origin" not in response.headers

    @pytest.mark.parametrize(("origin", "allowed"), [(OK, True), (ERRORS, False)])
    def test_those_that_were_named(self, serve: Serve, origin: str, allowed: bool) -> None:
        client = serve(origins=(OK, "http://second.example.org"), api_key="k").client
        headers = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        asked = client.options("/v1/chat/completions", headers=headers)
        assert (asked.status_code == 200) == allowed
        answered = client.get("/v1/models", headers={"origin": origin})
        assert answered.status_code == (401 if allowed else 403)
        for response in (asked, answered):
            shown = response.headers.get("access-control-allow-origin")
            assert shown == (origin if allowed else None)
            assert "access-control-allow-credentials" not in response.headers

    def test_any(self, serve: Serve) -> None:
        response = serve(origins=("*",)).client.get("/v1/models", headers={"origin": OK})
        assert response.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in response.headers


class TestDraining:
    def test_only_the_watchers_are_answered(self, serve: Serve) -> None:
        served = serve()
        served.state.draining = True
        response = served.client.get("/v1/models")
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert error_of(response)["code"] == "server_busy"
        assert served.client.get("/ready").status_code == 503
        assert served.client.get("/health").status_code == 200
        assert served.client.get("/metrics").status_code == 200

    def test_an_answer_that_the_end_takes_away(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served = serve()

        def ended(*_: object) -> None:
            served.state.draining = True
            raise GenerationError("the model has been closed")

        monkeypatch.setattr(served.state.pool, "acquire", ended)
        response = served.client.post("/tokenize", json={"content": "hi"})
        assert response.status_code == 503
        assert "the server has ended" in error_of(response)["message"]

    def test_no_request_is_left_counted(self, serve: Serve) -> None:
        served = serve()
        for path in ("/health", "/nope", "/v1/models/none/none"):
            served.client.get(path)
        assert served.state.active == 0


class TestUnforeseen:
    def fail(self, state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken() -> None:
            raise ZeroDivisionError("in /home/someone/secret.py")

        monkeypatch.setattr(state.pool, "residents", broken)

    def test_it_tells_nothing_but_the_id(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        served = serve()
        self.fail(served.state, monkeypatch)
        with caplog.at_level(logging.ERROR, "geniex.server"):
            response = served.client.get("/v1/ps")
        assert response.status_code == 500
        error = error_of(response)
        assert error["type"] == "server_error"
        assert "secret" not in response.text and "Zero" not in response.text
        name = response.headers["x-request-id"]
        assert name in error["message"]
        assert name in caplog.text and "ZeroDivisionError" in caplog.text
