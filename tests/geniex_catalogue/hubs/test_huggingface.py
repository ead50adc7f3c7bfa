"""The Hugging Face hub: listings, tokens, refusals, and headers read from afar."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    GenieXError,
    GGUFError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    HubRateLimitError,
    TransferError,
)
from geniex_catalogue.fileset import ModelFile
from geniex_catalogue.gguf import GGUFHeader, read_header
from geniex_catalogue.hubs.contract import Hub
from geniex_catalogue.hubs.huggingface import HuggingFace
from geniex_catalogue.hubs.retelling import told
from geniex_catalogue.hubs.web import Patience
from geniex_catalogue.names import ModelRef
from tests.hubserver import COMMIT, Fault, HubServer

QUICK = Patience(connect=2, stall=0.4, attempts=3, first_pause=0.01, longest_pause=2)
REF = ModelRef("org", "repo")


@pytest.fixture
def repo(hub: HubServer, tiny_chat: Path) -> HubServer:
    """A hub with the built-in model under another name."""
    hub.add("org/repo", {"tiny-Q8_0.gguf": tiny_chat.read_bytes(), "README.md": b"# tiny\n"})
    return hub


def test_it_is_a_hub() -> None:
    hub: Hub = HuggingFace()
    assert hub.name == "huggingface"


def test_listing_has_sizes_hashes_and_one_commit(repo: HubServer, tiny_chat: Path) -> None:
    listing = HuggingFace().list(REF, None)
    assert listing.revision == COMMIT
    files = {file.name: file for file in listing.files}
    assert files["tiny-Q8_0.gguf"].size == tiny_chat.stat().st_size
    assert len(files["tiny-Q8_0.gguf"].sha256 or "") == 64
    source = HuggingFace().source(listing, files["tiny-Q8_0.gguf"])
    assert source.url == f"{repo.url}/org/repo/resolve/{COMMIT}/tiny-Q8_0.gguf"


def test_sizes_that_a_mirror_does_not_know_are_unknown(repo: HubServer) -> None:
    repo.repos["org/repo"].facts = False
    assert {file.size for file in HuggingFace().list(REF, None).files} == {None}


def test_names_are_quoted_in_addresses(repo: HubServer) -> None:
    listing = HuggingFace().list(REF, None)
    url = HuggingFace().source(listing, ModelFile("a b/100% #1?.gguf", 1)).url
    assert url.endswith("/a%20b/100%25%20%231%3F.gguf")


def test_a_revision_is_asked_for(repo: HubServer) -> None:
    HuggingFace().list(REF, COMMIT)
    assert f"/revision/{COMMIT}" in repo.requests("api")[0].path
    with pytest.raises(HubNotFoundError, match="org/repo@nowhere"):
        HuggingFace().list(REF, "nowhere")


TOKENS = [
    pytest.param("given", {"GENIEX_HFTOKEN": "own", "HF_TOKEN": "hf"}, "kept", "given", id="given"),
    pytest.param(None, {"GENIEX_HFTOKEN": "own", "HF_TOKEN": "hf"}, "kept", "own", id="geniex"),
    pytest.param(None, {"GENIEX_HFTOKEN": " ", "HF_TOKEN": "hf"}, "kept", "hf", id="hf"),
    pytest.param(None, {}, "kept\n", "kept", id="file-of-the-hub"),
    pytest.param(None, {}, None, None, id="none"),
]


@pytest.mark.parametrize(("given", "variables", "kept", "sent"), TOKENS)
def test_the_order_of_tokens(
    repo: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    variables: dict[str, str],
    kept: str | None,
    sent: str | None,
) -> None:
    from huggingface_hub import constants

    file = tmp_path / "token"
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(file))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(tmp_path / "stored_tokens"))
    if kept is not None:
        file.write_text(kept)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = HuggingFace(given)
    listing = place.list(REF, None)
    expected = f"Bearer {sent}" if sent else None
    assert repo.requests("api")[0].headers.get("authorization") == expected
    assert place.source(listing, listing.files[0]).headers.get("authorization") == expected


def unknown(hub: HubServer) -> HuggingFace:
    del hub.repos["org/repo"]
    return HuggingFace(patience=QUICK)


def unknown_with_token(hub: HubServer) -> HuggingFace:
    del hub.repos["org/repo"]
    return HuggingFace("hf_secret", QUICK)


def private(hub: HubServer) -> HuggingFace:
    hub.repos["org/repo"].private = True
    return HuggingFace(patience=QUICK)


def bad_token(hub: HubServer) -> HuggingFace:
    return HuggingFace("wrong", QUICK)


def answering(*faults: Fault) -> Callable[[HubServer], HuggingFace]:
    def prepare(hub: HubServer) -> HuggingFace:
        hub.faults["api"] = list(faults) * 3
        return HuggingFace(patience=QUICK)

    return prepare


REFUSED = [
    pytest.param(unknown, HubNotFoundError, "not found on .* or private", id="unknown"),
    pytest.param(unknown_with_token, HubNotFoundError, "not found on", id="unknown-with-token"),
    pytest.param(private, HubNotFoundError, "or private", id="private"),
    pytest.param(bad_token, HubAuthError, "does not accept the token", id="bad-token"),
    pytest.param(answering(Fault(403)), HubAuthError, "gated or private", id="403"),
    pytest.param(answering(Fault(500)), HubError, "answered 500", id="500"),
    pytest.param(answering(Fault(418)), HubError, "answered 418", id="418"),
    pytest.param(
        answering(Fault(429, {"retry-after": "900"})), HubRateLimitError, "slow down", id="429"
    ),
    pytest.param(answering(Fault(cut=3)), TransferError, "broke", id="cut"),
    pytest.param(answering(Fault(stall=3)), TransferError, "sends nothing", id="stall"),
    pytest.param(
        answering(Fault(body=lambda data: b"<html>Please log in</html>")),
        HubError,
        "did not answer with a listing",
        id="web-page",
    ),
    pytest.param(answering(Fault(body=lambda data: b"[]")), HubError, "listing", id="list"),
    pytest.param(answering(Fault(body=lambda data: b"{}")), HubError, "listing", id="no-fields"),
]


@pytest.mark.parametrize(("prepare", "error", "text"), REFUSED)
def test_refused_listings_are_clear_errors(
    repo: HubServer,
    prepare: Callable[[HubServer], HuggingFace],
    error: type[GenieXError],
    text: str,
) -> None:
    with pytest.raises(error, match=text) as caught:
        prepare(repo).list(REF, None)
    assert "hf_secret" not in str(caught.value) + str(caught.value.hint)


def test_a_listing_is_asked_for_again(repo: HubServer) -> None:
    repo.faults["api"] = [Fault(503), Fault(cut=1)]
    assert HuggingFace(patience=QUICK).list(REF, None).files


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    with pytest.raises(HubOfflineError, match=r"`127.0.0.1:9` cannot be reached"):
        HuggingFace(patience=QUICK).list(REF, None)


@pytest.mark.parametrize("value", ["1", "on", "TRUE"])
def test_offline_mode_asks_nobody(
    repo: HubServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    with pytest.raises(HubOfflineError, match="offline"):
        HuggingFace().list(REF, None)
    assert not repo.seen


def test_a_name_that_no_repository_can_have(hub: HubServer) -> None:
    with pytest.raises(HubNotFoundError, match="cannot be on"):
        HuggingFace().list(ModelRef("org", "a--b"), None)


def header(hub: HubServer, token: str | None = None) -> GGUFHeader:
    place = HuggingFace(token, QUICK)
    listing = place.list(REF, None)
    return place.header(listing, next(f for f in listing.files if f.name.endswith(".gguf")))


def test_header_from_afar_is_the_header(repo: HubServer, tiny_chat: Path) -> None:
    assert header(repo) == read_header(tiny_chat)
    assert repo.served < tiny_chat.stat().st_size / 4


HEALED = [
    pytest.param([Fault(bare=True)], id="range-ignored"),
    pytest.param([Fault(cut=100)], id="cut"),
    pytest.param([Fault(cut=100, length=False)], id="cut-without-length"),
    pytest.param([Fault(503), Fault(stall=10)], id="503-then-stall"),
    pytest.param([Fault(403)], id="signed-address-expired"),
    pytest.param([Fault(204)], id="204"),
    pytest.param([Fault(304)], id="304"),
    pytest.param([Fault(416)], id="416"),
    pytest.param([Fault(302)], id="redirect-to-nowhere"),
    pytest.param([Fault(headers={"content-range": "bytes 0-0/1"})], id="another-size"),
    pytest.param([Fault(headers={"content-range": "bytes 8-519/9999"})], id="range-shifted"),
    pytest.param([Fault(headers={"content-range": "bytes"})], id="range-unstated"),
    pytest.param([Fault(body=lambda data: bytes(len(data)))], id="zeros"),
    pytest.param([Fault(headers={"content-encoding": "gzip"})], id="gzip"),
    pytest.param([Fault(headers={"content-type": "text/html"})], id="web-page"),
    pytest.param([Fault(most=100)] * 20, id="short-ranges"),
    pytest.param([Fault(drip=0.05)], id="trickle"),
]


@pytest.mark.parametrize("faults", HEALED)
def test_header_through_faults(repo: HubServer, tiny_chat: Path, faults: list[Fault]) -> None:
    repo.faults["cdn"] = faults
    assert header(repo) == read_header(tiny_chat)


STAYING = [
    pytest.param(Fault(204), "answered 204", id="204"),
    pytest.param(Fault(304), "answered 304", id="304"),
    pytest.param(Fault(416), "answered 416", id="416"),
    pytest.param(Fault(302), "answered 302", id="redirect-to-nowhere"),
    pytest.param(Fault(headers={"content-range": "bytes 0-0/1"}), "has 1 bytes", id="another-size"),
    pytest.param(
        Fault(headers={"content-range": "bytes 8-519/9999"}), "another range", id="range-shifted"
    ),
    pytest.param(Fault(headers={"content-type": "text/html"}), "web page", id="web-page"),
    pytest.param(Fault(drip=0.05), "almost nothing", id="trickle"),
]


@pytest.mark.parametrize(("fault", "text"), STAYING)
def test_a_hub_that_sends_no_header_is_at_fault(repo: HubServer, fault: Fault, text: str) -> None:
    repo.faults["cdn"] = [fault] * 9
    lines: list[str] = []
    with told(lines.append), pytest.raises(TransferError, match=text) as caught:
        header(repo)
    assert repo.cdn.removeprefix("http://") in caught.value.message
    assert len(lines) == 2 and all("asking again" in line for line in lines)


def test_a_listing_that_trickles_is_not_waited_for(repo: HubServer) -> None:
    repo.faults["api"] = [Fault(drip=0.05)]
    lines: list[str] = []
    with told(lines.append):
        assert HuggingFace(patience=QUICK).list(REF, None).files
    assert len(lines) == 1 and "almost nothing" in lines[0]


def test_a_moment_to_come_back_that_is_past_is_not_told(repo: HubServer) -> None:
    past = Fault(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})
    repo.faults["api"] = [past] * 3
    with pytest.raises(HubRateLimitError) as caught:
        HuggingFace(patience=QUICK).list(REF, None)
    assert "try again later" in (caught.value.hint or "")


def test_header_where_the_hub_knows_no_size(repo: HubServer, tiny_chat: Path) -> None:
    repo.repos["org/repo"].facts = False
    assert header(repo).file_size == tiny_chat.stat().st_size


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", id="pointer"),
        pytest.param(b"<!doctype html><html></html>", id="web-page"),
        pytest.param(b"GGUF\x03\x00\x00\x00", id="too-short"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_is_no_gguf_is_known_before_it_is_fetched(hub: HubServer, data: bytes) -> None:
    hub.add("org/repo", {"m-Q4_0.gguf": data})
    with pytest.raises(GGUFError, match=r"org/repo/m-Q4_0\.gguf"):
        header(hub)


def test_header_of_a_gated_model(repo: HubServer, tiny_chat: Path) -> None:
    repo.repos["org/repo"].gated = True
    with pytest.raises(HubAuthError, match="gated") as caught:
        header(repo)
    assert "accept its terms" in (caught.value.hint or "")
    assert header(repo, token="hf_secret") == read_header(tiny_chat)


def test_interrupt_during_a_stalled_listing(repo: HubServer) -> None:
    repo.faults["api"] = [Fault(stall=0)]
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        HuggingFace().list(REF, None)
    assert time.monotonic() - begin < 5
