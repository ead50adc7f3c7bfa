"""Addresses as users write them."""

import pytest

from geniex.address import parse_address
from geniex_catalogue.errors import UsageError


@pytest.mark.parametrize(
    ("text", "host", "port", "scheme"),
    [
        ("127.0.0.1", "127.0.0.1", 18181, "http"),
        ("127.0.0.1:8080", "127.0.0.1", 8080, "http"),
        ("http://127.0.0.1:8080", "127.0.0.1", 8080, "http"),
        ("http://127.0.0.1:8080/", "127.0.0.1", 8080, "http"),
        ("http://127.0.0.1:8080/v1/", "127.0.0.1", 8080, "http"),
        ("HTTPS://box.example", "box.example", 18181, "https"),
        (":8080", "127.0.0.1", 8080, "http"),
        (" localhost ", "localhost", 18181, "http"),
        ("0.0.0.0:1", "0.0.0.0", 1, "http"),
        ("::1", "::1", 18181, "http"),
        ("[::1]:8080", "::1", 8080, "http"),
        ("http://[fe80::1%eth0]:8080", "fe80::1%eth0", 8080, "http"),
        ("::", "::", 18181, "http"),
        ("box:0", "box", 0, "http"),
    ],
)
def test_what_they_mean(text: str, host: str, port: int, scheme: str) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.scheme) == (host, port, scheme)
    assert parse_address(address.url) == address


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "a b",
            "ftp://box",
            "box:port",
            "box:80v1",
            "box:99999",
            "http://user@box",
            "box/v2",
        ),
        *("[::1", "::1]:80", "[nonsense]:80", "1:2:3", "box:80:80", "box?x"),
    ],
)
def test_what_they_are_not(text: str) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "loopback", "reached"),
    [
        ("127.0.0.1", True, "127.0.0.1"),
        ("127.1.2.3", True, "127.1.2.3"),
        ("::1", True, "::1"),
        ("LOCALHOST", True, "LOCALHOST"),
        ("0.0.0.0", False, "127.0.0.1"),
        ("::", False, "::1"),
        ("192.0.2.1", False, "192.0.2.1"),
        ("box.example", False, "box.example"),
    ],
)
def test_who_reaches_them(text: str, loopback: bool, reached: str) -> None:
    assert parse_address(text).loopback == loopback
    assert parse_address(text).reached().host == reached
