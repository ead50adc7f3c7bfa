"""Memory is weights, KV and work; a context is chosen that fits it."""

from dataclasses import replace

import pytest

from geniex_runtimes import memory
from tests.geniex_runtimes.models import GB, header, model

KV = 24 * 8 * 2 * 128 * 2  # blocks, heads, K and V, values a head, bytes


def test_need_is_the_sum_of_its_parts() -> None:
    need = memory.need(model(2 * GB), 4096)
    assert need.weights == 2 * GB
    assert need.kv == 4096 * KV
    assert 0 < need.work < GB
    assert need.total == need.weights + need.kv + need.work


def test_without_a_header_the_files_count() -> None:
    assert memory.need(model(3 * GB, bare=True), 4096) == memory.MemoryNeed(3 * GB, 0, 0)


@pytest.mark.parametrize(
    ("trained", "free", "expected"),
    [
        pytest.param(131072, 64 * GB, memory.DEFAULT_CONTEXT, id="the-cap"),
        pytest.param(2048, 64 * GB, 2048, id="trained-for-less"),
        pytest.param(None, 64 * GB, memory.DEFAULT_CONTEXT, id="trained-length-unknown"),
        pytest.param(131072, 2 * GB + 8192 * KV // 2 + GB // 10, 4096, id="half-of-it-fits"),
        pytest.param(131072, GB, memory.LEAST_CONTEXT, id="nothing-fits"),
        pytest.param(512, GB, 512, id="nothing-fits-but-it-is-short"),
        pytest.param(3000, 0, 3000, id="not-below-the-least"),
    ],
)
def test_default_context(trained: int | None, free: int, expected: int) -> None:
    assert memory.default_context(model(2 * GB, context=trained), free) == expected


@pytest.mark.parametrize("limit", [0, 2 * GB, 3 * GB, 4 * GB, 100 * GB])
def test_largest_context_fits_and_a_step_more_does_not(limit: int) -> None:
    big = model(2 * GB, context=32768)
    found = memory.largest_context(big, limit)
    assert found % 256 == 0
    assert found == 0 or memory.need(big, found).total <= limit
    assert found == 32768 or memory.need(big, found + 256).total > limit


def test_a_state_of_fixed_size_counts_with_what_is_kept_of_it() -> None:
    plain = model()
    keys = {"llama.ssm.inner_size": 64, "llama.ssm.state_size": 16}
    hybrid = replace(plain, header=replace(header(), metadata={**header().metadata, **keys}))
    states = 24 * 64 * 16 * 4 * (1 + memory.KEPT_STATES)
    for length in (256, 4096):
        without = memory.need(plain, length)
        assert memory.need(hybrid, length) == replace(without, states=states)
        assert memory.need(hybrid, length).total == without.total + states


def test_a_sliding_window_is_kept_in_full() -> None:
    plain = memory.need(model(), 8192)
    sliding = memory.need(replace(model(), header=header(window=512)), 8192)
    assert sliding.kv == plain.kv
    assert sliding.work > plain.work
