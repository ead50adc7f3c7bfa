"""The cache of keys and values, and how numbers become elements."""

from typing import Any

import numpy as np
import pytest

from geniex_runtimes.qairt.encoding import Encoding, encoding_of
from geniex_runtimes.qairt.kv import KvCache
from geniex_runtimes.qairt.layout import layout_of
from tests.geniex_runtimes.qairt.graphs import graph, tensor

CACHES = layout_of([[graph(4, 16), graph(1, 16)]]).caches


def new(*tokens: int) -> dict[str, Any]:
    """What graphs would give for tokens: their numbers, in every place."""
    keys = np.broadcast_to(np.array(tokens, np.uint8), (2, 1, 4, len(tokens)))
    return {"past_key_0_out": keys, "past_value_0_out": keys.swapaxes(2, 3)}


def seen(cache: KvCache) -> list[int]:
    """The tokens of a cache, filled or not; the same in keys and values."""
    key, value = (cache.taken()[name] for name in ("past_key_0_in", "past_value_0_in"))
    assert (key == key[:1, :, :1]).all() and (value == key.swapaxes(2, 3)).all()
    assert key.flags.c_contiguous and value.flags.c_contiguous
    tokens: list[int] = key[0, 0, 0].tolist()
    return tokens


def test_tokens_are_kept_and_moved_into_other_rooms() -> None:
    cache = KvCache(CACHES)
    cache.fit(6)
    assert seen(cache) == [3] * 6, "what stands for 0"
    cache.add(new(10, 11, 12, 99), 3)
    assert (cache.filled, seen(cache)) == (3, [10, 11, 12, 3, 3, 3])
    cache.fit(4)
    cache.add(new(13), 1)
    assert seen(cache) == [10, 11, 12, 13]
    cache.fit(7)
    assert seen(cache) == [10, 11, 12, 13, 3, 3, 3]


def test_tokens_are_cut_and_dropped() -> None:
    cache = KvCache(CACHES)
    cache.fit(8)
    cache.add(new(*range(10, 18)), 8)
    cache.drop(2, 3)
    assert (cache.filled, seen(cache)[:5]) == (5, [10, 11, 15, 16, 17])
    cache.cut(2)
    cache.add(new(20), 1)
    assert (cache.filled, seen(cache)[:3]) == (3, [10, 11, 20])
    cache.cut(9)
    assert cache.filled == 3
    cache.clear()
    assert (cache.filled, cache.room) == (0, 0)


def test_what_is_kept_can_be_taken_elsewhere() -> None:
    cache, other = KvCache(CACHES), KvCache(CACHES)
    cache.fit(8)
    cache.add(new(10, 11), 2)
    other.load(cache.arrays(), 2)
    other.fit(4)
    assert seen(other) == [10, 11, 3, 3]
    for wrong in ({}, {name: one[:1] for name, one in cache.arrays().items()}):
        with pytest.raises(ValueError, match="`past_key_0` is not what this bundle keeps"):
            other.load(wrong, 2)
    with pytest.raises(ValueError, match="past_key_0"):
        other.load(cache.arrays(), 3)


@pytest.mark.parametrize(
    ("encoding", "values", "elements"),
    [
        pytest.param(Encoding(np.dtype("uint8"), 0.5, -4), [0, 0.5, 0.9], [4, 5, 5], id="cut-off"),
        pytest.param(Encoding(np.dtype("uint8"), 0.5, -4), [-9, 900], [0, 255], id="clipped"),
        pytest.param(Encoding(np.dtype("uint16"), 2**-15, -32768), [1, -1], [65535, 0], id="u16"),
        pytest.param(Encoding(np.dtype("int16"), 0.5, 0), [-0.9, 0.9], [-1, 1], id="towards-zero"),
        pytest.param(Encoding(np.dtype("float16")), [0.5, -2], [0.5, -2], id="float"),
    ],
)
def test_values_become_elements(
    encoding: Encoding, values: list[float], elements: list[float]
) -> None:
    found = encoding.cut(np.array(values, np.float64))
    assert found.dtype == encoding.dtype and found.tolist() == elements


def test_elements_become_values() -> None:
    elements = np.array([0, 4, 255], np.uint8)
    encoding = encoding_of(tensor("x", 3, dtype="uint8", scale=0.25, offset=-4))
    assert encoding.decode(elements).tolist() == [-1, 0, 62.75]
    assert elements.tolist() == [0, 4, 255]
    assert (encoding.zero, encoding.masked) == (4, 0)
    plain = encoding_of(tensor("x", 3, dtype="float32"))
    given = np.array([1.5], np.float32)
    assert plain.decode(given).tolist() == [1.5] and plain.decode(given) is not given
    assert plain.zero == 0 and plain.masked < -1000
