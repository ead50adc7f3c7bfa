"""By which names the server answers: a table of `Host` headers."""

import socket

import pytest
from starlette.testclient import TestClient

from geniex.server.security.hosts import host_of, own_names
from tests.geniex.server.conftest import Serve
from tests.geniex.server.security.conftest import Watched
from tests.geniex.server.security.wire import head, post, send

OWN = socket.gethostname().partition(".")[0]

TAKEN = {
    "an address": "127.0.0.1",
    "with its port": "127.0.0.1:18181",
    "with another port": "192.168.7.9:80",
    "any address": "0.0.0.0",
    "six": "[::1]",
    "six with a port": "[::1]:18181",
    "six with a zone": "[fe80::1%25eth0]:1",
    "four in six": "[::ffff:127.0.0.1]",
    "localhost": "localhost",
    "localhost in capitals": "LocalHost:18181",
    "localhost with a dot": "localhost.",
    "below localhost": "app.localhost:3000",
    "its own name": OWN,
    "its own name on the network": f"{OWN}.local",
    "as containers call it": "host.docker.internal:18181",
    "an empty port": "localhost:",
}
REFUSED = {
    "a stranger": "evil.example",
    "with the right port": "evil.example:18181",
    "an address in a name": "127.0.0.1.evil.example",
    "an address before a name": "127.0.0.1evil",
    "localhost in a name": "localhost.evil.example",
    "a name before localhost": "evillocalhost",
    "any name of the network": "other.local",
    "a service of names": "127-0-0-1.nip.example",
    "a single word": "intranet",
    "hexadecimal": "0x7f000001",
    "one number": "2130706433",
    "short": "127.1",
    "octal": "0177.0.0.1",
    "an underscore": "_evil.example",
    "a dot more": "localhost..",
}
ODD = {
    "empty": "",
    "a port alone": ":18181",
    "a user": "localhost@evil.example",
    "two": "localhost, evil.example",
    "a path": "localhost/evil",
    "a scheme": "http://localhost",
    "no number": "localhost:port",
    "too large a port": "localhost:123456",
    "an open bracket": "[::1",
    "no address in brackets": "[evil.example]",
    "too many colons": "::1:18181",
    "a blank": "local host",
    "not ASCII": "l\xf6calhost",
    "long": "a" * 300,
    "percent": "%6cocalhost",
    "a backslash": "localhost\\evil",
    "a star": "*",
    "a quote": '"localhost"',
}


@pytest.mark.parametrize("host", TAKEN.values(), ids=TAKEN.keys())
def test_names_of_this_machine_are_answered(watched: Watched, host: str) -> None:
    assert send(watched.url, head("/v1/models", host=host)).status == 200


@pytest.mark.parametrize("host", REFUSED.values(), ids=REFUSED.keys())
def test_names_of_others_are_refused(watched: Watched, host: str) -> None:
    for raw in (
        head("/v1/models", host=host),
        head("/", host=host),
        post("/tokenize", b"{}", host=host),
    ):
        reply = send(watched.url, raw)
        assert (reply.status, reply.code) == (421, "host_not_allowed")
        assert b"`--allowed-hosts`" in reply.body
        assert "access-control-allow-origin" not in reply.headers
    watched.answers()


@pytest.mark.parametrize("host", ODD.values(), ids=ODD.keys())
def test_what_names_no_host_is_refused(watched: Watched, host: str) -> None:
    raw = head("/v1/models", [("Host", host)], host="")
    reply = send(watched.url, raw)
    assert (reply.status, reply.code) == (400, "invalid_host")
    watched.answers()


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        pytest.param(head("/v1/models", host=""), 400, "invalid_http", id="none"),
        pytest.param(
            head("/v1/models", [("Host", "evil.example")], host="localhost"),
            *(400, "invalid_http"),
            id="two",
        ),
        pytest.param(
            head("/v1/models", [("Host", "localhost")], host="localhost"),
            *(400, "invalid_http"),
            id="the same twice",
        ),
        pytest.param(b"GET /v1/models HTTP/1.0\r\n\r\n", 200, None, id="a watcher of old"),
        pytest.param(
            b"GET /v1/models HTTP/1.0\r\nHost: evil.example\r\n\r\n",
            *(421, "host_not_allowed"),
            id="a stranger of old",
        ),
        pytest.param(
            head("http://localhost/v1/models", host="evil.example"), 200, None, id="in the target"
        ),
        pytest.param(
            head("http://evil.example/v1/models", host="localhost"),
            *(421, "host_not_allowed"),
            id="a stranger in the target",
        ),
        pytest.param(
            head("HTTP://evil.example@localhost/v1/models", host="localhost"),
            *(400, "invalid_host"),
            id="a user in the target",
        ),
        pytest.param(
            head("http:///v1/models", host="localhost"), 400, "invalid_host", id="no host there"
        ),
        pytest.param(
            head("ftp://localhost/v1/models", host="localhost"),
            *(404, "route_not_found"),
            id="another scheme",
        ),
        pytest.param(
            head("/v1/models", [("X-Forwarded-Host", "localhost")], host="evil.example"),
            *(421, "host_not_allowed"),
            id="forwarded",
        ),
    ],
)
def test_where_the_name_stands(watched: Watched, raw: bytes, status: int, code: str | None) -> None:
    reply = send(watched.url, raw)
    assert (reply.status, reply.code) == (status, code)
    watched.answers()


@pytest.mark.parametrize(
    ("allowed", "host", "taken"),
    [
        (("gpu.example.org",), "gpu.example.org", True),
        (("GPU.example.org.",), "gpu.EXAMPLE.org:99", True),
        (("gpu.example.org",), "x.gpu.example.org", False),
        (("*.example.org",), "a.b.example.org", True),
        (("*.example.org",), "example.org", False),
        (("*.example.org",), "evilexample.org", False),
        (("*",), "evil.example", True),
        (("*",), "a b", False),
        ((), "testserver", False),
    ],
)
def test_those_that_the_operator_allows(
    serve: Serve, allowed: tuple[str, ...], host: str, taken: bool
) -> None:
    client: TestClient = serve(allowed_hosts=allowed).client
    assert (client.get("/health", headers={"host": host}).status_code == 200) == taken


def test_the_network_is_not_asked_for_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box.Example.org")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given: pytest.fail("it was asked"))
    assert own_names() == {"box.example.org", "box", "box.local"}
    assert host_of("BOX.:1") == "box"
