"""Small documents: a faulty answer is asked for again, and told."""

import pytest

from geniex_catalogue.errors import GenieXError, HubError, TransferError
from geniex_catalogue.hubs.documents import fetch_document
from geniex_catalogue.hubs.retelling import told
from geniex_catalogue.hubs.web import Patience
from tests.hubserver import Fault, HubServer

QUICK = Patience(connect=2, stall=0.4, attempts=3, first_pause=0.01, longest_pause=2)
DATA = b'{"models": []}' + b" " * 300

FAULTS: list[tuple[str, Fault, type[GenieXError], str]] = [
    ("trickle", Fault(drip=0.05), TransferError, "almost nothing"),
    ("204", Fault(204), HubError, "answered 204"),
    ("304", Fault(304), HubError, "answered 304"),
    ("gzip", Fault(headers={"content-encoding": "gzip"}), TransferError, "encoded"),
    ("web-page", Fault(body=lambda _: b"<!doctype html>"), TransferError, "web page"),
]


@pytest.mark.parametrize(
    ("fault", "error", "text"), [pytest.param(*case[1:], id=case[0]) for case in FAULTS]
)
def test_a_faulty_document_is_asked_for_again(
    hub: HubServer, fault: Fault, error: type[GenieXError], text: str
) -> None:
    hub.add("org/lists", {"manifest.json": DATA})
    url = f"{hub.cdn}/x/org%2Flists/manifest.json"
    lines: list[str] = []
    with told(lines.append):
        hub.faults["cdn"] = [fault]
        assert fetch_document(url, "the list", patience=QUICK) == DATA
        assert len(lines) == 1 and lines[0].startswith("the list: ")
        hub.faults["cdn"] = [fault] * 9
        with pytest.raises(error, match=text):
            fetch_document(url, "the list", patience=QUICK)
    assert len(lines) == 3
