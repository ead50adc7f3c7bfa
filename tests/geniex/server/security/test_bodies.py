"""Bodies, heads and framings that no client sends by accident."""

import gzip
import json
from typing import Any

import pytest

from geniex.server.security.head import MAX_COUNT, MAX_HEADERS, MAX_TARGET
from geniex.server.security.json_body import MAX_DEPTH, MAX_VALUES, loads
from tests.geniex.server.security.conftest import MODEL, Watched
from tests.geniex.server.security.wire import connect, head, post, receive, send

GOOD = json.dumps({"model": MODEL, "content": "Hi"}).encode()
TARGET = "/tokenize"


def with_field(text: bytes) -> bytes:
    """A good body with one field more."""
    return GOOD[:-1] + b', "more": ' + text + b"}"


JSON = {
    "deep lists": with_field(b"[" * 10_000 + b"]" * 10_000),
    "deep objects": with_field(b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "lists that never end": b"[" * 100_000,
    "a little too deep": with_field(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
    "too many values": with_field(b"[" + b"0," * MAX_VALUES + b"0]"),
    "too many lists": with_field(b"[[]" + b",[[[[]]]]" * (MAX_VALUES // 5) + b"]"),
    "a huge number": with_field(b"1" * 5000),
    "a huge exponent": with_field(b"1e999"),
    "no number": with_field(b"NaN"),
    "infinity": with_field(b"Infinity"),
    "minus infinity": with_field(b"[-Infinity]"),
    "a name twice": with_field(b'1, "model": "none/none"'),
    "a name twice, deeper": with_field(b'{"a": {"b": 1, "b": 2}}'),
    "no UTF-8": with_field(b'"\xff\xfe"'),
    "a long form of a character": with_field(b'"\xc0\xaf"'),
    "half a character in bytes": with_field(b'"\xed\xa0\x80"'),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "two values": GOOD + GOOD,
    "garbage after it": GOOD + b"x",
    "cut off": GOOD[:-2],
    "a control character": with_field(b'"\x01"'),
    "a NUL": GOOD + b"\x00",
    "a comment": GOOD[:-1] + b"/* */}",
    "a comma too much": GOOD[:-1] + b",}",
    "single quotes": GOOD.replace(b'"', b"'"),
    "a leading zero": with_field(b"007"),
    "hexadecimal": with_field(b"0x1f"),
    "nothing but a blank": b" ",
}


@pytest.mark.parametrize("body", JSON.values(), ids=JSON.keys())
def test_what_is_no_json_is_refused(watched: Watched, body: bytes) -> None:
    reply = send(watched.url, post(TARGET, body))
    assert (reply.status, reply.code) == (400, "invalid_json")
    watched.answers()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xef\xbb\xbf" + GOOD, id="a byte order mark"),
        pytest.param(
            with_field(b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)), id="as deep as may be"
        ),
        pytest.param(with_field(b"1" * 4000), id="a long number"),
        pytest.param(with_field(b'"\\ud800"'), id="half a character"),
        pytest.param(with_field(b"[" + b"0," * 100_000 + b"0]"), id="a long list"),
        pytest.param(with_field(b'{"a": 1, "A": 2}'), id="names that are alike"),
    ],
)
def test_what_is_json_is_not(watched: Watched, body: bytes) -> None:
    assert send(watched.url, post(TARGET, body)).status == 200


def raw(*headers: str, body: bytes = GOOD, version: str = "HTTP/1.1") -> bytes:
    """A POST of JSON with exactly these headers more."""
    lines = [f"POST {TARGET} {version}", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = "Transfer-Encoding: chunked"
LENGTH = f"Content-Length: {len(GOOD)}"
END = b"0\r\n\r\n"
BOMB = gzip.compress(b"0" * (64 << 20))

FRAMES: dict[str, tuple[bytes, int, str | None]] = {
    "chunks": (raw(CHUNKED, body=chunk(GOOD) + END), 200, None),
    "both lengths": (raw(LENGTH, CHUNKED, body=chunk(GOOD) + END), 400, "ambiguous_length"),
    "both, the other way": (raw(CHUNKED, LENGTH, body=chunk(GOOD) + END), 400, "ambiguous_length"),
    "both, zero": (raw(CHUNKED, "Content-Length: 0", body=END), 400, "ambiguous_length"),
    "two lengths": (raw(LENGTH, "Content-Length: 3"), 400, "invalid_http"),
    "two in one": (raw(f"{LENGTH}, 3"), 400, "invalid_http"),
    "a negative length": (raw("Content-Length: -1"), 400, "invalid_http"),
    "a length with a sign": (raw("Content-Length: +46"), 400, "invalid_http"),
    "a length in words": (raw("Content-Length: ten"), 400, "invalid_http"),
    "a hexadecimal length": (raw("Content-Length: 0x2e"), 400, "invalid_http"),
    "an endless length": (raw("Content-Length: " + "9" * 19), 413, "request_too_large"),
    "a length of many digits": (raw("Content-Length: " + "9" * 400), 400, "invalid_http"),
    "one byte too much": (raw(f"Content-Length: {(64 << 20) + 1}"), 413, "request_too_large"),
    "a coding more": (raw("Transfer-Encoding: gzip, chunked", body=END), 501, "invalid_http"),
    "chunks twice": (raw("Transfer-Encoding: chunked, chunked", body=END), 501, "invalid_http"),
    "chunks in two headers": (raw(CHUNKED, CHUNKED, body=END), 501, "invalid_http"),
    "another coding": (raw("Transfer-Encoding: xchunked", body=END), 501, "invalid_http"),
    "a coding in disguise": (raw("Transfer-Encoding: \x0bchunked", body=END), 400, "invalid_http"),
    "a blank before the colon": (raw("Transfer-Encoding : chunked"), 400, "invalid_http"),
    "chunks of no size": (raw(CHUNKED, body=b"zz\r\nhello\r\n" + END), 400, "invalid_http"),
    "a negative chunk": (raw(CHUNKED, body=b"-5\r\nhello\r\n" + END), 400, "invalid_http"),
    "a chunk of many digits": (raw(CHUNKED, body=b"f" * 40 + b"\r\n"), 400, "invalid_http"),
    "a chunk that goes on": (raw(CHUNKED, body=b"2\r\n{}xx" + END), 400, "invalid_http"),
    "an endless note on a chunk": (
        raw(CHUNKED, body=b"5;" + b"a" * 99_000),
        *(431, "headers_too_large"),
    ),
    "gzip": (raw("Content-Encoding: gzip", LENGTH), 415, "unsupported_encoding"),
    "a bomb of gzip": (
        raw("Content-Encoding: gzip", f"Content-Length: {len(BOMB)}", body=BOMB),
        *(415, "unsupported_encoding"),
    ),
    "brotli": (raw("Content-Encoding: br", LENGTH), 415, "unsupported_encoding"),
    "two codings": (raw("Content-Encoding: identity, gzip", LENGTH), 415, "unsupported_encoding"),
    "no coding by name": (raw("Content-Encoding: identity", LENGTH), 200, None),
    "a form": (
        raw("Content-Length: 0", body=b"").replace(b"application/json", b"multipart/form-data"),
        *(400, "missing_required_parameter"),
    ),
    "XML": (
        raw(LENGTH).replace(b"application/json", b"application/xml"),
        *(400, "invalid_content_type"),
    ),
    "a header that goes on": (raw("X-A: 1\r\n 2", LENGTH), 200, None),
    "a NUL in a header": (raw("X-A: 1\x002", LENGTH), 400, "invalid_http"),
    "a header without a name": (raw(": x", LENGTH), 400, "invalid_http"),
    "a header without a colon": (raw("Xyz", LENGTH), 400, "invalid_http"),
    "another version": (raw(LENGTH, version="HTTP/9.9"), 505, "invalid_http"),
    "no version": (b"GET /\r\n\r\n", 400, "invalid_http"),
    "the next version": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "invalid_http"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 99, 400, "invalid_http"),
    "another protocol": (b"EHLO canary.example\r\n\r\n", 400, "invalid_http"),
    "a blank in the address": (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_http"),
    "bytes in the address": (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "invalid_http"),
    "a long address": (head("/" + "a" * MAX_TARGET, host="localhost"), 414, "address_too_long"),
    "a long query": (head("/?" + "a" * MAX_TARGET, host="localhost"), 414, "address_too_long"),
    "many headers": (
        head("/", [(f"X-{n}", "1") for n in range(MAX_COUNT)], host="localhost"),
        *(431, "headers_too_large"),
    ),
    "a large header": (
        head("/", [("X-A", "a" * MAX_HEADERS)], host="localhost"),
        *(431, "headers_too_large"),
    ),
    "an endless header": (b"GET / HTTP/1.1\r\nX-A: " + b"a" * 300_000, 431, "headers_too_large"),
    "an endless first line": (b"GET /" + b"a" * 300_000, 431, "headers_too_large"),
    "a tunnel": (head("localhost:22", method="CONNECT", host="localhost"), 404, "route_not_found"),
    "a mirror": (head("/v1/models", method="TRACE", host="localhost"), 405, "method_not_allowed"),
    "a method of its own": (
        head("/v1", method="CANARY", host="localhost"),
        *(405, "method_not_allowed"),
    ),
    "a star": (head("*", method="OPTIONS", host="localhost"), 404, "route_not_found"),
    "a socket": (
        head("/v1", [("Connection", "Upgrade"), ("Upgrade", "websocket")], host="localhost"),
        *(200, None),
    ),
    "the next version by an upgrade": (
        head("/v1", [("Connection", "Upgrade"), ("Upgrade", "h2c")], host="localhost"),
        *(200, None),
    ),
    "an expectation": (
        raw("Expect: 100-continue", f"Content-Length: {65 << 20}", body=b""),
        *(413, "request_too_large"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "status", "code"), FRAMES.values(), ids=FRAMES.keys())
def test_frames(watched: Watched, sent: bytes, status: int, code: str | None) -> None:
    reply = send(watched.url, sent)
    assert (reply.status, reply.code) == (status, code), reply
    watched.answers()


def test_a_request_within_a_body_is_none(watched: Watched) -> None:
    hidden = head("/v1/ps", host="localhost")
    smuggled = raw(f"Content-Length: {len(hidden)}", CHUNKED, body=END + hidden)
    with connect(watched.url) as link:
        link.sendall(smuggled)
        assert receive(link, "POST").code == "ambiguous_length"
        assert receive(link).status == 0
    watched.answers()


def test_requests_in_a_row_are_answered_in_a_row(watched: Watched) -> None:
    with connect(watched.url) as link:
        link.sendall(raw(LENGTH) + raw("Content-Length: 1", body=b"x") + raw(LENGTH) * 3)
        found = [receive(link, "POST").status for _ in range(5)]
    assert found == [200, 400, 200, 200, 200]


def test_what_follows_a_body_that_is_longer_than_it_says(watched: Watched) -> None:
    with connect(watched.url) as link:
        link.sendall(raw(f"Content-Length: {len(GOOD)}", body=GOOD + b"\x00garbage\r\n\r\n"))
        assert receive(link, "POST").status == 200
        assert receive(link).status == 400
        assert receive(link).status == 0
    watched.answers()


def test_a_body_that_is_shorter_than_it_says(watched: Watched) -> None:
    reply = send(watched.url, raw(f"Content-Length: {len(GOOD) + 9}"), ends=True)
    assert reply.status in (0, 400)
    watched.answers()


def test_a_body_that_never_says_how_long_it_is(watched: Watched) -> None:
    piece = chunk(b" " * (1 << 20))
    with connect(watched.url) as link:
        link.sendall(raw(CHUNKED, body=b""))
        try:
            for _ in range(70):
                link.sendall(piece)
        except ConnectionError:
            pass  # it has been refused already
        assert receive(link, "POST").status in (0, 413)
    watched.answers()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"n": 100_000}, "invalid_value", id="choices"),
        pytest.param({"stop": ["x"] * 1000}, "invalid_value", id="stops"),
        pytest.param({"top_logprobs": 1 << 20}, "invalid_value", id="alternatives"),
        pytest.param({"temperature": 1e308}, "invalid_value", id="temperature"),
        pytest.param({"temperature": "NaN"}, "invalid_value", id="no temperature"),
        pytest.param({"nctx": 1 << 30}, None, id="context"),
        pytest.param({"nctx": 1 << 80}, "invalid_value", id="a context beyond numbers"),
        pytest.param({"logit_bias": {"9" * 30: 1}}, "invalid_value", id="tokens"),
        pytest.param({"grammar_string": "root ::= " + "(" * 50_000}, "invalid_value", id="groups"),
        pytest.param({"messages": "x"}, "invalid_value", id="no messages"),
        pytest.param({"messages": [[]] * 1000}, "invalid_value", id="wrong messages"),
        pytest.param({"tools": [{"type": "x"}] * 1000}, None, id="wrong tools"),
        pytest.param({"keep_alive": 1e300}, "invalid_value", id="for ever"),
        pytest.param({"compute": "x" * 100_000 + " "}, "invalid_value", id="a long unit"),
        pytest.param({"spec_type": "x," * 50_000}, "invalid_value", id="many kinds"),
    ],
)
def test_values_that_are_out_of_all_proportion(
    watched: Watched, fields: dict[str, Any], code: str | None
) -> None:
    plain = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    body = json.dumps({**plain, **fields}).encode()
    reply = send(watched.url, post("/v1/chat/completions", body))
    assert reply.status == 400
    assert code is None or reply.code == code
    assert len(reply.body) < 10_000
    watched.answers()


def test_a_grammar_whose_ways_double_with_each_letter(watched: Watched) -> None:
    letter = send(watched.url, post(TARGET, json.dumps({"model": MODEL, "content": "a"}).encode()))
    [token] = json.loads(letter.body)["tokens"]
    fields = {
        "model": MODEL,
        "prompt": "Hi",
        "max_tokens": 40,
        "grammar_string": 'root ::= "a" root "b" | "a" root "c" | "a"',
        "logit_bias": {str(token): 100},
    }
    reply = send(watched.url, post("/v1/completions", json.dumps(fields).encode()))
    assert (reply.status, reply.code) == (400, "invalid_value")
    assert json.loads(reply.body)["error"]["param"] == "grammar_string"
    watched.answers()


def test_it_reads_what_json_reads() -> None:
    values: list[Any] = [{}, [], "x", 1, -1.5e300, None, True, {"a": [{"b": "\u00e9\U0001f600"}]}]
    for value in values:
        assert loads(json.dumps(value).encode()) == value
