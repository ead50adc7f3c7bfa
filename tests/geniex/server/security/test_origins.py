"""Which web pages may call: a table of `Origin` headers, and what browsers ask first."""

from typing import Any

import pytest

from geniex.config import read_settings
from geniex.keys import parse_origins
from geniex_catalogue.errors import UsageError
from tests.geniex.server.conftest import Serve
from tests.geniex.server.security.conftest import Watched
from tests.geniex.server.security.wire import head, post, send

TAKEN = {
    "localhost": "http://localhost",
    "localhost at a port": "http://localhost:3000",
    "by TLS": "https://localhost:8443",
    "an address": "http://127.0.0.1:5173",
    "six": "http://[::1]:8080",
}
REFUSED = {
    "a stranger": "http://evil.example",
    "by TLS": "https://evil.example",
    "none": "null",
    "empty": "",
    "localhost in a name": "http://localhost.evil.example",
    "an address in a name": "http://127.0.0.1.evil.example",
    "a name that ends so": "http://evil-localhost",
    "a user": "http://localhost@evil.example",
    "a user before localhost": "http://evil.example@localhost",
    "a path": "http://localhost/evil",
    "a query": "http://localhost?http://evil.example",
    "two": "http://localhost http://evil.example",
    "with a comma": "http://localhost,http://evil.example",
    "a file": "file://",
    "an extension": "chrome-extension://abcdefghijklmnop",
    "another scheme": "app://localhost",
    "a socket": "ws://localhost",
    "any": "*",
    "the local network": "http://192.168.1.1",
    "all addresses": "http://0.0.0.0:3000",
    "another loopback": "http://127.0.0.2",
    "in capitals": "HTTP://LOCALHOST:3000.evil.example",
    "no port": "http://localhost:port",
    "too large a port": "http://localhost:1234567",
    "no address": "http://[::1",
    "not ASCII": "http://l\xf6calhost",
    "a tab": "http://localhost\t.evil.example",
}
BODY = b'{"model": "geniex/tiny-chat", "content": "Hi"}'


@pytest.mark.parametrize("origin", TAKEN.values(), ids=TAKEN.keys())
def test_pages_of_this_machine_may_call(watched: Watched, origin: str) -> None:
    reply = send(watched.url, post("/tokenize", BODY, ("Origin", origin)))
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in reply.headers
    assert "Origin" in reply.headers["vary"]


@pytest.mark.parametrize("origin", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("fetched", [None, "same-origin"])
def test_other_pages_may_not(watched: Watched, origin: str, fetched: str | None) -> None:
    headers = [("Origin", origin), *([("Sec-Fetch-Site", fetched)] if fetched else [])]
    for raw in (
        head("/v1/models", headers, host="localhost"),
        post("/tokenize", BODY, *headers),
        _asked(*headers),
    ):
        reply = send(watched.url, raw)
        assert (reply.status, reply.code) == (403, "origin_not_allowed")
        assert not [name for name in reply.headers if name.startswith("access-control-")]
    watched.answers()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([("Sec-Fetch-Site", "cross-site")], id="a form"),
        pytest.param(
            [("Origin", "http://localhost"), ("Origin", "http://evil.example")], id="two origins"
        ),
        pytest.param([("Origin", "http://evil.example"), ("Host", "")], id="a faulty host beside"),
    ],
)
def test_other_ways_of_pages(watched: Watched, headers: list[tuple[str, str]]) -> None:
    reply = send(watched.url, post("/tokenize", BODY, *headers))
    assert reply.status in (400, 403)
    watched.answers()


def _asked(*headers: tuple[str, str]) -> bytes:
    """What a browser asks before a page may send JSON."""
    more = [
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ]
    return head("/v1/chat/completions", [*headers, *more], method="OPTIONS", host="localhost")


def test_what_browsers_ask_first(watched: Watched) -> None:
    network = ("Access-Control-Request-Private-Network", "true")
    reply = send(watched.url, _asked(("Origin", "http://localhost:3000"), network))
    assert reply.status == 200
    told = {name: value for name, value in reply.headers.items() if "access-control" in name}
    assert told["access-control-allow-origin"] == "http://localhost:3000"
    assert told["access-control-allow-headers"] == "authorization,content-type"
    assert "POST" in told["access-control-allow-methods"]
    assert "DELETE" not in told["access-control-allow-methods"]
    assert told["access-control-allow-private-network"] == "true"
    assert "access-control-allow-credentials" not in told


def test_a_method_that_no_route_has(watched: Watched) -> None:
    raw = _asked(("Origin", "http://localhost")).replace(b"Method: POST", b"Method: DELETE")
    assert send(watched.url, raw).status == 400


@pytest.mark.parametrize(
    ("origins", "origin", "taken"),
    [
        ("https://chat.example.org", "https://chat.example.org", True),
        ("https://chat.example.org", "https://chat.example.org.evil.example", False),
        ("https://chat.example.org", "https://chat.example.org:8443", False),
        ("https://chat.example.org", "http://chat.example.org", False),
        ("https://chat.example.org", "http://localhost:3000", False),
        ("loopback,https://chat.example.org", "http://localhost:3000", True),
        ("none", "http://localhost:3000", False),
        ("none", "none", False),
        ("loopback", "loopback", False),
        ("*", "https://evil.example", True),
        ("tauri://localhost", "tauri://localhost", True),
    ],
)
def test_those_that_the_operator_names(
    serve: Serve, origins: str, origin: str, taken: bool
) -> None:
    client = serve(origins=tuple(parse_origins(origins).split(","))).client
    reply: Any = client.get("/v1/models", headers={"origin": origin})
    assert (reply.status_code == 200) == taken
    assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    ("origins", "host", "taken"),
    [
        pytest.param("loopback", "localhost:18181", True, id="another port of this machine"),
        pytest.param("loopback", "api.example.org", False, id="another name below the domain"),
        pytest.param("loopback", "192.168.1.5", False, id="another port of an address"),
        pytest.param("none", "localhost:18181", False, id="where no page may"),
        pytest.param("*", "api.example.org", True, id="where all may"),
    ],
)
def test_pages_of_the_same_site_that_send_no_origin(
    serve: Serve, origins: str, host: str, taken: bool
) -> None:
    client = serve(origins=(origins,), allowed_hosts=("*",)).client
    headers = {"host": host, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/v1/models", headers=headers).status_code == (200 if taken else 403)


def test_its_own_page_may_always_call(serve: Serve) -> None:
    client = serve(origins=("none",)).client
    assert client.get("/v1/models", headers={"origin": "http://testserver"}).status_code == 200


def test_none_is_none_alone(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        read_settings({"origins": "none,loopback", "data_dir": str(tmp_path)}, {})
