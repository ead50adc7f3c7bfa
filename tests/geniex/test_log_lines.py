"""Log lines: one a record, with the request that they belong to, whatever is in them."""

import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex.log_format import LOG_FORMATS, LogFormat
from geniex.log_lines import formatter, request_id


@pytest.fixture
def request_named() -> Iterator[str]:
    token = request_id.set("req_1")
    yield "req_1"
    request_id.reset(token)


def record(message: str, *args: Any, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("geniex.x", logging.WARNING, "f.py", 7, message, args, None)
    made.__dict__.update(extra)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = formatter("json").format(made)
    assert "\n" not in line and line.isascii()
    found = json.loads(line, parse_constant=pytest.fail)
    assert isinstance(found, dict)
    return found


@given(st.text(st.characters(exclude_categories=[])))
def test_any_message_is_one_line_and_comes_back(message: str) -> None:
    assert as_json(record("%s", message))["message"] == message


def test_the_keys_and_their_order() -> None:
    found = as_json(record("loaded %s", "it", fields={"model": "a/b", "seconds": 0.5}))
    assert list(found) == ["time", "level", "logger", "message", "model", "seconds"]
    assert (found["level"], found["logger"]) == ("warning", "geniex.x")
    assert found["message"] == "loaded it"
    assert datetime.fromisoformat(found["time"]).utcoffset() == timedelta(0)


def test_a_request_is_named(request_named: str) -> None:
    assert as_json(record("hi"))["request_id"] == request_named
    assert f"geniex.x [{request_named}]: hi" in formatter("text").format(record("hi"))


def test_without_a_request_there_is_no_name() -> None:
    assert "request_id" not in as_json(record("hi"))
    assert formatter("text").format(record("hi")).endswith("WARNING geniex.x: hi")


def test_fields_as_text() -> None:
    fields = {"status": 200, "load_time": 0.1, "model": "m"}
    line = formatter("text").format(record("GET / 200", fields=fields))
    assert line.endswith("GET / 200 (load time 0.1, model m)")


def test_a_traceback_is_inside_the_object() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as exc:
        made = record("oh")
        made.exc_info = (type(exc), exc, exc.__traceback__)
    found = as_json(made)
    assert list(found)[-1] == "traceback"
    assert found["traceback"].startswith("Traceback") and "two\nlines" in found["traceback"]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"\xff", object(), "\ud800", {"a": {"b": [1]}}],
    ids=["nan", "inf", "set", "bytes", "object", "surrogate", "nested"],
)
def test_any_field_can_be_said(value: Any) -> None:
    assert "it" in as_json(record("hi", fields={"it": value}))


@pytest.mark.parametrize("kind", LOG_FORMATS)
def test_each_format_has_a_formatter(kind: LogFormat) -> None:
    assert "hi" in formatter(kind).format(record("hi"))
