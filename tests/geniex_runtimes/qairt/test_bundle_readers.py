"""Whatever the JSON files of a bundle hold, reading them gives a value or a BundleError."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from geniex_catalogue.errors import BundleError
from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.bundle_json import Section, parse_json
from geniex_runtimes.qairt.context_header import read_context_header
from tests.geniex_runtimes.qairt import plain_bundle

FILES = {
    "genie_config.json": plain_bundle.CONFIG,
    "metadata.json": plain_bundle.METADATA,
    "tokenizer.json": plain_bundle.TOKENIZER,
    "tokenizer_config.json": plain_bundle.TOKENIZER_CONFIG,
    "htp.json": plain_bundle.EXTENSIONS,
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["../x", "/etc/passwd", "a.bin", "tokenizer.json", "\ud800", "-1"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
FAST = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def places(value: object, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, by the keys that lead there."""
    here = [way] if way else []
    if isinstance(value, dict):
        return here + [one for key, below in value.items() for one in places(below, (*way, key))]
    if isinstance(value, list):
        return here + [one for at, below in enumerate(value) for one in places(below, (*way, at))]
    return here


SPOTS = [(name, way) for name, whole in FILES.items() for way in places(whole)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain_bundle.write(tmp_path_factory.mktemp("bundles") / "plain")


@FAST
@given(st.binary(max_size=64) | VALUES.map(json.dumps).map(str.encode))
@example(b"\xef\xbb\xbf{}")
@example(b'{"a": ' + b"9" * 5000 + b"}")
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(BundleError):
        assert isinstance(parse_json(Path("x.json"), data), Section)


@settings(FAST, max_examples=200)
@given(st.sampled_from(SPOTS), VALUES)
def test_any_value_anywhere(plain: Path, spot: tuple[str, tuple[Any, ...]], value: object) -> None:
    name, way = spot
    whole = json.loads(json.dumps(FILES[name]))
    here = whole
    for key in way[:-1]:
        here = here[key]
    here[way[-1]] = value
    path = plain / name
    before = path.read_bytes()
    path.write_text(json.dumps(whole), encoding="utf-8")
    try:
        with contextlib.suppress(BundleError):
            bundle = read_bundle(plain)
            assert all(one.is_relative_to(plain) for one in (bundle.tokenizer, *bundle.shards))
    finally:
        path.write_bytes(before)


@FAST
@given(st.binary(max_size=96) | st.binary(max_size=64).map(lambda end: b"\0\0\0\2" + end))
def test_any_header(plain: Path, data: bytes) -> None:
    path = plain / "any.bin"
    path.write_bytes(data)
    header = read_context_header(path)
    assert header is None or header.size == len(data)
