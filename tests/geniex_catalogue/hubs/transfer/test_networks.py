"""Networks: names that are not known, proxies, certificates, log-in pages, lines that trickle."""

import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from geniex_catalogue.errors import HubError, HubOfflineError, HubRateLimitError, TransferError
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.transfer import Fetch, fetch
from geniex_catalogue.hubs.web import Patience
from tests.geniex_catalogue.hubs.transfer.download import (
    DATA,
    QUICK,
    SHA256,
    Told,
    broken_off,
    job,
    run,
)
from tests.hubserver import Fault, HubServer

HASTE = replace(QUICK, stall=0.3, attempts=2)


def test_a_host_that_nobody_knows(tmp_path: Path) -> None:
    lost = Fetch("m.gguf", Source("http://no.such.host.invalid/m"), tmp_path / "p", 10, None)
    with pytest.raises(HubOfflineError, match=r"no\.such\.host\.invalid. cannot be reached"):
        fetch([lost], None, HASTE)


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        pytest.param("HF_ENDPOINT", ", HTTPS_PROXY and HF_ENDPOINT", id="hf"),
        pytest.param("GENIEX_AIHUBBASEURL", ", HTTPS_PROXY and GENIEX_", id="aihub"),
        pytest.param("NOBODY", " and HTTPS_PROXY", id="another"),
    ],
)
def test_what_decides_how_a_host_is_reached_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, says: str
) -> None:
    place = "127.0.0.1:9"
    monkeypatch.setenv(variable, f"http://{place}/x")
    lost = Fetch("m.gguf", Source(f"http://{place}/m"), tmp_path / "p", 10, None)
    with pytest.raises(HubOfflineError) as caught:
        fetch([lost], None, HASTE)
    assert str(caught.value.hint).startswith(f"check the network{says}")


def test_a_proxy_that_is_not_there_is_named(
    repo: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(HubOfflineError, match=r"the proxy is `127\.0\.0\.1:9`") as caught:
        fetch([job(repo, tmp_path)], None, HASTE)
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert run(repo, tmp_path).sha256 == SHA256


class Relaying(BaseHTTPRequestHandler):
    """A proxy that keeps what it was asked for, and says nothing good."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(407)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    asked: list[str] = []
    handler = type("Handler", (Relaying,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "")
        yield asked
        server.shutdown()


def test_a_proxy_is_asked(repo: HubServer, tmp_path: Path, proxy: list[str]) -> None:
    with pytest.raises(HubError, match="proxy asks for a name"):
        fetch([job(repo, tmp_path)], None, HASTE)
    assert proxy[0] == job(repo, tmp_path).source.url
    assert not repo.seen


def test_a_server_that_speaks_no_tls(repo: HubServer, tmp_path: Path) -> None:
    plain = job(repo, tmp_path)
    source = Source(plain.source.url.replace("http:", "https:"))
    with pytest.raises(HubOfflineError, match="cannot be reached"):
        fetch([replace(plain, source=source)], None, HASTE)


def test_a_certificate_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, *_: object, **__: object) -> object:
        raise ssl.SSLCertVerificationError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", refuse)
    with ThreadingHTTPServer(("127.0.0.1", 0), Relaying) as server:
        url = f"https://127.0.0.1:{server.server_port}/m"
        lost = Fetch("m.gguf", Source(url), tmp_path / "p", 10, None)
        with pytest.raises(HubOfflineError, match="not trusted") as caught:
            fetch([lost], None, HASTE)
    assert "SSL_CERT_FILE" in str(caught.value.hint)


PAGE = b"\n<!doctype HTML>\n<html><body>Accept the terms of this hotel</body></html>"


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        pytest.param({"content-type": "text/html"}, True, id="told"),
        pytest.param({}, True, id="as-bytes"),
        pytest.param({}, False, id="as-bytes-where-nothing-is-known"),
        pytest.param({"location": "http://{}/"}, True, id="by-redirect"),
    ],
)
def test_a_log_in_page_is_no_model(
    repo: HubServer, tmp_path: Path, headers: dict[str, str], known: bool
) -> None:
    page = Fault(headers=headers, body=lambda _: PAGE)
    if "location" in headers:
        repo.repos["org/repo"].files["login"] = PAGE
        where = f"{repo.cdn}/x/org%2Frepo/login"
        repo.faults["resolve"] = [Fault(302, {"location": where})] * 9
        page = Fault(headers={"content-type": "text/html"})
    repo.faults["cdn"] = [page] * 9
    if not known:
        repo.repos["org/repo"].facts = False
        repo.faults["resolve"] = [page] * 9
    plain = job(repo, tmp_path, size=len(DATA) if known else None, sha256=known)
    with pytest.raises(TransferError, match=r"web page|has \d+ bytes"):
        fetch([plain], None, HASTE)
    for place in repo.faults:
        del repo.faults[place][1:]
    # one such page alone, and the next answer is good
    assert fetch([plain], None, HASTE)[0].sha256 == SHA256


def test_a_log_in_page_instead_of_the_rest(repo: HubServer, tmp_path: Path) -> None:
    """What has arrived before stays."""
    part = broken_off(repo, tmp_path)
    before = part.read_bytes()
    repo.faults["resolve"] = [Fault(headers={"location": f"{repo.cdn}/x/org%2Frepo/login"})] * 9
    repo.repos["org/repo"].files["login"] = PAGE
    repo.faults["cdn"] = [Fault(headers={"content-type": "text/html"}, bare=True)] * 9
    with pytest.raises(TransferError, match="web page"):
        run(repo, tmp_path)
    assert part.read_bytes() == before
    repo.faults.clear()
    repo.served = 0
    assert run(repo, tmp_path).sha256 == SHA256
    # a page of before may be counted late
    assert 0 <= repo.served - (len(DATA) - len(before)) <= 9 * len(PAGE)


def test_a_line_that_trickles_is_not_waited_for(repo: HubServer, tmp_path: Path) -> None:
    told = Told()
    repo.faults["cdn"] = [Fault(drip=0.05)]
    assert run(repo, tmp_path, told).sha256 == SHA256
    assert ["almost nothing" in str(it[2]) for it in told.calls if it[0] == "retry"] == [True]
    repo.faults["cdn"] = [Fault(drip=0.05)] * 9
    (tmp_path / "m.gguf.partial").unlink()
    with pytest.raises(TransferError, match="almost nothing"):
        fetch([job(repo, tmp_path)], None, HASTE)


def test_a_server_that_gives_short_ranges(repo: HubServer, tmp_path: Path) -> None:
    """Each is taken, and the next one asked for at once."""
    repo.faults["cdn"] = [Fault(most=200_000)] * 30
    slow_to_retry = Patience(stall=2, attempts=2, first_pause=60)
    got = fetch([job(repo, tmp_path)], None, slow_to_retry, span=1_000_000, max_workers=1)
    assert got[0].sha256 == SHA256
    assert repo.served == len(DATA)


def test_the_hubs_clock_counts_for_its_pauses(repo: HubServer, tmp_path: Path) -> None:
    """Our clock may be years off."""
    soon = {
        "date": "Wed, 21 Oct 2037 07:28:00 GMT",
        "retry-after": "Wed, 21 Oct 2037 07:28:01 GMT",
    }
    late = {**soon, "retry-after": "Wed, 21 Oct 2037 09:28:00 GMT"}
    repo.faults["cdn"] = [Fault(429, soon)]
    assert run(repo, tmp_path).sha256 == SHA256
    repo.faults["cdn"] = [Fault(429, late)]
    (tmp_path / "m.gguf.partial").unlink()
    with pytest.raises(HubRateLimitError, match="slow down") as caught:
        run(repo, tmp_path)
    assert "in 7200 s" in str(caught.value.hint)
