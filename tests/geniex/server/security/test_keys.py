"""The key that clients send: a table of `Authorization` headers, and of files of keys."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from geniex.address import parse_address
from geniex.api_keys import KeyRing, exposure, new_key
from geniex.cli.access import read_access
from geniex_catalogue.errors import UsageError
from tests.geniex.server.conftest import Serve
from tests.geniex.server.live import running, start
from tests.geniex.server.security.wire import head, send

KEY, OTHER = "sk-" + "a" * 40, "sk-" + "b" * 40

REFUSED: dict[str, list[str]] = {
    "none": [],
    "empty": [""],
    "no key": ["Bearer"],
    "a blank": ["Bearer  "],
    "another": [f"Bearer {OTHER}"],
    "one letter less": [f"Bearer {KEY[:-1]}"],
    "one letter more": [f"Bearer {KEY}a"],
    "in capitals": [f"Bearer {KEY.upper()}"],
    "no scheme": [KEY],
    "another scheme": [f"Basic {KEY}"],
    "twice": [f"Bearer {KEY} {KEY}"],
    "with a comma": [f"Bearer {KEY},{KEY}"],
    "two headers": [f"Bearer {OTHER}", f"Bearer {KEY}"],
    "the same header twice": [f"Bearer {KEY}", f"Bearer {KEY}"],
    "not ASCII": [f"Bearer {KEY}\xe9"],
    "a comment of the file": ["Bearer # laptop"],
    "very long": ["Bearer " + "a" * 20_000],
    "quoted": [f'Bearer "{KEY}"'],
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with two keys in a file."""
    data_dir = tmp_path_factory.mktemp("keyed")
    file = data_dir / "keys.txt"
    file.write_text(f"# of the team\n{KEY}   # laptop\n\n  {OTHER}9\n", encoding="utf-8")
    file.chmod(0o600)
    flags = ("--api-key-file", str(file), "--allowed-hosts", "gpu.example.org")
    with running(*flags, "--log", "trace", data_dir=data_dir) as server:
        yield server, file


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("target", ["/v1/models", "/metrics"])
def test_wrong_keys_are_refused(keyed: Any, target: str, given: list[str]) -> None:
    server, _ = keyed
    reply = send(server.url, head(target, [("Authorization", one) for one in given], host="[::1]"))
    assert (reply.status, reply.code) == (401, "invalid_api_key")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert KEY.encode() not in reply.body and OTHER.encode() not in reply.body
    assert _status(server.url, KEY) == 200


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"Authorization: Bearer {KEY}\0", id="a NUL behind it"),
        pytest.param(f"Authorization : Bearer {KEY}", id="a blank before the colon"),
        pytest.param(f"Bearer {KEY}", id="no header"),
    ],
)
def test_no_error_tells_a_key(keyed: Any, line: str) -> None:
    server, _ = keyed
    reply = send(
        server.url, f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode()
    )
    assert (reply.status, reply.code) == (400, "invalid_http")
    assert KEY.encode() not in reply.body and b"header line" in reply.body
    first = send(server.url, f"{KEY} / HTTP/1.1 x\r\n\r\n".encode())
    assert first.status == 400 and KEY.encode() not in first.body


@pytest.mark.parametrize(
    "target",
    [
        *("/v1/models/", "//v1/models", "/v1/./models", "/models", "/health/../v1/models"),
        *("/docs/../v1/models", "/docs/%2e%2e/v1/models", "/docs/static/..%2f..%2fv1/models"),
        *("/v1/models?/health", "/v1/models;/health", "/V1/MODELS", "/v1%2fmodels", "/metrics/"),
        *("http://localhost/v1/models", "/openapi.json/../v1/models", "/ready%00/../v1/models"),
    ],
)
def test_there_is_no_way_around(keyed: Any, target: str) -> None:
    server, _ = keyed
    reply = send(server.url, head(target, host="localhost"))
    assert reply.status in (401, 404)
    assert b"tiny-chat" not in reply.body
    with_query = send(server.url, head(f"/v1/models?api_key={KEY}", host="localhost"))
    assert with_query.status == 401


@pytest.mark.parametrize("target", ["/", "/docs", "/health", "/ready", "/openapi.json"])
def test_what_needs_no_key(keyed: Any, target: str) -> None:
    server, _ = keyed
    assert send(server.url, head(target, host="gpu.example.org")).status == 200


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGHUP")
def test_the_file_is_read_again_at_a_hangup(keyed: Any) -> None:
    server, file = keyed
    before = file.read_text(encoding="utf-8")
    assert _status(server.url, KEY) == 200 and _status(server.url, OTHER) == 401
    file.write_text(f"{OTHER}\n", encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    server.await_log("the API keys were read again: 1")
    assert _status(server.url, KEY) == 401 and _status(server.url, OTHER) == 200
    file.write_text("no key\n", encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    server.await_log("the API keys stay as they were: the API key on line 1")
    assert _status(server.url, OTHER) == 200
    file.write_text(before, encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    server.await_log("the API keys were read again: 2")
    assert _status(server.url, KEY) == 200
    assert not [line for line in server.log if KEY in line or OTHER in line]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells who catches what")
def test_a_hangup_while_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"{KEY}\n", encoding="utf-8")
    server = start("--api-key-file", str(file), data_dir=tmp_path)
    try:
        status = Path(f"/proc/{server.process.pid}/status")
        while not _catches(status.read_text(encoding="ascii"), signal.SIGHUP):
            assert server.process.poll() is None
        server.process.send_signal(signal.SIGHUP)
        server.await_listening()
        server.await_log("the API keys were read again: 1")
        assert _status(server.url, KEY) == 200
    finally:
        server.end()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGHUP")
def test_a_hangup_ends_a_server_without_a_file(tmp_path: Path) -> None:
    environ = {"GENIEX_APIKEY_FILE": str(tmp_path / "none")}
    server = start("--no-auth", data_dir=tmp_path, environ=environ)
    try:
        server.await_listening()
    finally:
        assert server.end(signal.SIGHUP) in (129, -signal.SIGHUP)


def _catches(status: str, number: int) -> bool:
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def _status(url: str, key: str) -> int:
    return send(url, head("/v1/models", [("Authorization", f"Bearer {key}")], host="[::1]")).status


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "holds no API key", id="empty"),
        pytest.param(b"# nothing\n\n", "holds no API key", id="comments"),
        pytest.param(b"k1\nhas blank\n", "line 2", id="a blank"),
        pytest.param("k1\nk\u00e9y\n".encode(), "line 2", id="not ASCII"),
        pytest.param(b"k\x07y\n", "line 1", id="a bell"),
        pytest.param(b"\xff\xfek\x00", "no text in UTF-8", id="UTF-16"),
        pytest.param(b"k\n" * 600_000, "larger than 1 MiB", id="huge"),
    ],
)
def test_files_that_hold_no_keys(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=told) as caught:
        KeyRing(file=file)
    assert "has blank" not in str(caught.value)


@pytest.mark.parametrize("kind", ["none", "folder", "pipe"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "keys"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        if os.name != "posix":
            pytest.skip("no pipes in folders")
        os.mkfifo(file)
    with pytest.raises(UsageError, match="cannot be read"):
        KeyRing(file=file)


def test_a_ring_knows_its_keys_and_tells_none() -> None:
    ring = KeyRing(("one", "two"))
    assert [ring.knows(key) for key in ("one", "two", "three", "")] == [True, True, False, False]
    assert len(ring) == 2 and "one" not in repr(ring)
    assert ring.reload() == 2


def test_keys_that_are_made_differ() -> None:
    assert len({new_key() for _ in range(50)}) == 50
    assert min(len(new_key()) for _ in range(50)) >= 43


@pytest.mark.skipif(os.name != "posix", reason="the bits of Windows tell nothing")
@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_that_others_may_read_is_told_of(tmp_path: Path, mode: int, told: bool) -> None:
    file = tmp_path / "keys"
    file.write_text("key", encoding="utf-8")
    file.chmod(mode)
    assert (exposure(file) is not None) == told
    access = read_access(None, file, parse_address("0.0.0.0"), no_auth=False)
    assert bool(access.warnings) == told


@pytest.mark.parametrize(
    ("host", "flags", "keys"),
    [
        ("127.0.0.1", {}, 0),
        ("[::1]", {}, 0),
        ("localhost", {}, 0),
        ("0.0.0.0", {}, 1),
        ("[::]", {}, 1),
        ("192.168.1.7", {}, 1),
        ("box.example.org", {}, 1),
        ("0.0.0.0", {"no_auth": True}, 0),
        ("127.0.0.1", {"no_auth": True}, 0),
        ("0.0.0.0", {"key": "given"}, 1),
    ],
)
def test_beyond_this_machine_there_is_a_key(
    host: str, flags: dict[str, Any], keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GENIEX_APIKEY", raising=False)
    given = {"key": None, "file": None, "no_auth": False, **flags}
    access = read_access(given["key"], given["file"], parse_address(host), no_auth=given["no_auth"])
    assert (0 if access.keys is None else len(access.keys)) == keys
    made = keys == 1 and not flags
    assert any("made for this run" in note for note in access.notes) == made
    insisted = "no_auth" in flags and host == "0.0.0.0"
    assert bool(access.warnings) == insisted


def test_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("from-file\n", encoding="utf-8")
    monkeypatch.setenv("GENIEX_APIKEY", "from-variable")
    monkeypatch.setenv("GENIEX_APIKEY_FILE", str(file))
    access = read_access(None, None, parse_address("0.0.0.0"), no_auth=False)
    assert access.keys is not None
    assert access.keys.knows("from-file") and access.keys.knows("from-variable")
    # a flag wins
    assert read_access(None, None, parse_address("0.0.0.0"), no_auth=True).keys is None


@pytest.mark.parametrize("given", [{"key": "k"}, {"file": Path("keys")}])
def test_a_key_and_none_exclude_each_other(given: dict[str, Any]) -> None:
    both = {"key": None, "file": None, **given}
    with pytest.raises(UsageError, match="exclude each other"):
        read_access(both["key"], both["file"], parse_address("0.0.0.0"), no_auth=True)


def test_a_key_in_process(serve: Serve) -> None:
    client = serve(keys=KeyRing(("one", "two"))).client
    for key, status in (("one", 200), ("two", 200), ("three", 401)):
        headers = {"authorization": f"Bearer {key}"}
        assert client.get("/v1/models", headers=headers).status_code == status
