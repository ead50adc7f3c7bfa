"""Faults of the network and of servers: right bytes or a clear error."""

from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    ChecksumError,
    GenieXError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    HubRateLimitError,
    TransferError,
)
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.transfer import Fetch, fetch
from tests.geniex_catalogue.hubs.transfer.download import DATA, HALF, QUICK, Told, job, run
from tests.hubserver import COMMIT, Fault, HubServer, Place

LOOP = f"/org/repo/resolve/{COMMIT}/m.gguf"
HEALED: list[tuple[str, Place, list[Fault]]] = [
    ("cut", "cdn", [Fault(cut=HALF)]),
    ("cut-at-once", "cdn", [Fault(cut=0)]),
    ("cut-before-last-byte", "cdn", [Fault(cut=len(DATA) - 1)]),
    ("cut-without-length", "cdn", [Fault(cut=HALF, length=False)]),
    ("cut-often", "cdn", [Fault(cut=n * 100_000) for n in range(1, 8)]),
    ("stall-at-first-byte", "cdn", [Fault(stall=0)]),
    ("stall-at-99-percent", "cdn", [Fault(stall=2_970_000)]),
    ("500", "cdn", [Fault(status=500)]),
    ("503-from-the-hub", "resolve", [Fault(status=503), Fault(status=502)]),
    ("408", "cdn", [Fault(status=408)]),
    ("429-with-pause", "resolve", [Fault(status=429, headers={"retry-after": "1"})]),
    ("429-of-the-hub", "resolve", [Fault(status=429, headers={"ratelimit": '"api";r=0;t=1'})]),
    ("429-without-pause", "cdn", [Fault(status=429)]),
    ("503-until-a-date", "cdn", [Fault(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})]),
    ("signed-address-expired", "cdn", [Fault(status=403)]),
    ("no-length", "cdn", [Fault(length=False)]),
    ("range-ignored", "cdn", [Fault(cut=HALF), Fault(bare=True)]),
    ("range-ignored-and-cut", "cdn", [Fault(cut=HALF), Fault(bare=True, cut=100), Fault()]),
    (
        "range-from-elsewhere",
        "cdn",
        [
            Fault(cut=HALF),
            Fault(headers={"content-range": "bytes 7-9/99"}, body=lambda b: b"?" + b[1:]),
        ],
    ),
    ("range-unstated", "cdn", [Fault(cut=HALF), Fault(headers={"content-range": "bytes"})]),
    ("416", "cdn", [Fault(cut=HALF), Fault(status=416)]),
    ("another-etag-on-206", "cdn", [Fault(cut=HALF), Fault(headers={"etag": '"other"'})]),
    ("weak-etag", "cdn", [Fault(cut=HALF, headers={"etag": 'W/"x"'})]),
    ("204", "cdn", [Fault(cut=HALF), Fault(204)]),
    ("304", "cdn", [Fault(cut=HALF), Fault(304)]),
    ("redirect-to-nowhere", "cdn", [Fault(cut=HALF), Fault(302)]),
    ("206-unasked", "cdn", [Fault(206)]),
    (
        "several-ranges",
        "cdn",
        [
            Fault(cut=HALF),
            Fault(206, {"content-type": "multipart/byteranges; boundary=x"}),
        ],
    ),
    ("gzip", "cdn", [Fault(cut=HALF), Fault(headers={"content-encoding": "gzip"})]),
    ("br", "cdn", [Fault(headers={"content-encoding": "br"})]),
    ("web-page", "cdn", [Fault(cut=HALF), Fault(headers={"content-type": "text/html"})]),
    ("other-size", "cdn", [Fault(body=lambda b: b[:-1])]),
    ("too-long", "cdn", [Fault(body=lambda b: b + b"x", length=False)]),
    ("redirect-loop", "resolve", [Fault(302, {"location": LOOP})] * 11),
    ("wrong-bytes-then-cut", "cdn", [Fault(body=lambda b: b"X" + b[1:], cut=HALF)]),
]


@pytest.mark.parametrize(
    ("place", "faults"), [pytest.param(*case[1:], id=case[0]) for case in HEALED]
)
def test_faults_end_in_right_bytes(
    repo: HubServer, tmp_path: Path, place: Place, faults: list[Fault]
) -> None:
    repo.faults[place] = list(faults)
    assert run(repo, tmp_path).path.read_bytes() == DATA
    assert not repo.faults[place], "a fault did not happen"


# without a length or right bytes there is nothing left to tell by
TELLABLE = [
    case
    for case in HEALED
    if case[0] not in ("cut-without-length", "wrong-bytes-then-cut", "other-size", "too-long")
]


@pytest.mark.parametrize(
    "faults", [pytest.param(case[2], id=case[0]) for case in TELLABLE if case[1] == "cdn"]
)
def test_faults_where_the_hub_states_no_hash(
    repo: HubServer, tmp_path: Path, faults: list[Fault]
) -> None:
    repo.repos["org/repo"].facts = False
    # a refusal by the hub itself is final
    repo.faults["resolve"] = [fault for fault in faults if fault.status != 403]
    got = fetch([job(repo, tmp_path, size=None, sha256=False)], Told(), QUICK)[0]
    assert got.path.read_bytes() == DATA


REFUSED: list[tuple[str, Place, Fault, type[GenieXError], str]] = [
    ("401", "resolve", Fault(status=401), HubNotFoundError, "or private"),
    (
        "bad-token",
        "resolve",
        Fault(401, {"x-error-message": "Invalid credentials in Authorization header"}),
        HubAuthError,
        "token",
    ),
    ("403", "resolve", Fault(status=403), HubAuthError, "gated or private"),
    ("gated", "resolve", Fault(401, {"x-error-code": "GatedRepo"}), HubAuthError, "gated"),
    (
        "disabled",
        "resolve",
        Fault(403, {"x-error-message": "Access to this resource is disabled."}),
        HubError,
        "switched off",
    ),
    ("404", "resolve", Fault(status=404), HubNotFoundError, "not found"),
    ("400", "resolve", Fault(status=400), HubError, "answered 400"),
    ("429-for-an-hour", "cdn", Fault(429, {"retry-after": "3600"}), HubRateLimitError, "slow down"),
    ("500-for-ever", "cdn", Fault(status=500), HubError, "answered 500"),
    ("cut-for-ever", "cdn", Fault(cut=0), TransferError, "broke"),
    ("stall-for-ever", "cdn", Fault(stall=0), TransferError, "sends nothing"),
    ("403-for-ever", "cdn", Fault(status=403), TransferError, "answered 403"),
    ("204", "cdn", Fault(status=204), TransferError, "answered 204"),
    ("206-unasked", "cdn", Fault(status=206), TransferError, "answered 206"),
    (
        "web-page",
        "cdn",
        Fault(headers={"content-type": "text/html; charset=utf-8"}, body=lambda b: b"<html>"),
        TransferError,
        "web page",
    ),
    ("gzip", "cdn", Fault(headers={"content-encoding": "gzip"}), TransferError, "encoded"),
    ("other-size", "cdn", Fault(body=lambda b: b[:-1]), ChecksumError, "2999999 bytes"),
    ("too-long", "cdn", Fault(body=lambda b: b + b"x", length=False), ChecksumError, "more than"),
    ("other-bytes", "cdn", Fault(body=lambda b: b[:-1] + b"?"), ChecksumError, "sha256"),
    ("redirect-loop", "resolve", Fault(302, {"location": "/x/y"}), HubError, "redirects"),
    (
        "redirect-to-a-file",
        "resolve",
        Fault(302, {"location": "file:///etc/passwd"}),
        GenieXError,
        "",
    ),
]


@pytest.mark.parametrize(
    ("place", "fault", "error", "text"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED]
)
def test_faults_that_stay_are_clear_errors(
    repo: HubServer,
    tmp_path: Path,
    place: Place,
    fault: Fault,
    error: type[GenieXError],
    text: str,
) -> None:
    repo.faults[place] = [fault] * 30
    if fault.headers.get("location") == "/x/y":
        repo.faults["cdn"] = [fault] * 30
    with pytest.raises(error) as caught:
        run(repo, tmp_path)
    assert text in caught.value.message
    assert "s3cret" not in str(caught.value)


def test_wrong_bytes_are_not_kept(repo: HubServer, tmp_path: Path) -> None:
    repo.faults["cdn"] = [Fault(body=lambda data: data[:-1] + b"?")] * 2
    with pytest.raises(ChecksumError):
        run(repo, tmp_path)
    assert (tmp_path / "m.gguf.partial").stat().st_size == 0
    assert run(repo, tmp_path).path.read_bytes() == DATA


def test_nobody_there(tmp_path: Path) -> None:
    lost = Fetch("m.gguf", Source("http://127.0.0.1:9/m.gguf"), tmp_path / "p", 10, None)
    with pytest.raises(HubOfflineError, match="cannot be reached"):
        fetch([lost], Told(), QUICK)


def test_facts_from_headers_when_the_listing_has_none(repo: HubServer, tmp_path: Path) -> None:
    told = Told()
    repo.faults["cdn"] = [Fault(body=lambda data: data[:-1] + b"?")] * 2
    with pytest.raises(ChecksumError):
        fetch([job(repo, tmp_path, size=None, sha256=False)], told, QUICK)
    repo.faults["cdn"] = [Fault(cut=HALF, length=False)]
    got = fetch([job(repo, tmp_path, size=None, sha256=False)], told, QUICK)[0]
    assert got.path.read_bytes() == DATA
