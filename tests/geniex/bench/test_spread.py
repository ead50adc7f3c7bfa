"""Medians, quartiles and ratios of measured values, and what they are taken to say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex.bench.spread import Spread, beyond_noise, fewest, paired, ratio, spread, verdict

POSITIVE = st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([3.0], Spread(3, 3, 3, 1), id="one"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], Spread(3, 2, 4, 5), id="five"),
        pytest.param([5.0, 1.0, 4.0, 2.0, 3.0], Spread(3, 2, 4, 5), id="in any order"),
        pytest.param([1.0, 3.0], Spread(2, 1.5, 2.5, 2), id="two"),
    ],
)
def test_spread(values: list[float], expected: Spread | None) -> None:
    assert spread(values) == expected


def test_a_pair_forgets_what_a_whole_round_suffered() -> None:
    base = [100.0, 10.0, 50.0]
    found = paired([200.0, 20.0, 100.0], base)
    assert found == Spread(2, 2, 2, 3)


def test_rounds_without_a_value_do_not_count() -> None:
    assert paired([2.0, 0.0, 2.0, 9.0], [1.0, 1.0, 0.0]) == Spread(2, 2, 2, 1)
    assert paired([1.0], []) is None


@given(POSITIVE, POSITIVE)
def test_a_ratio_lies_between_its_ends(values: list[float], base: list[float]) -> None:
    found = ratio(values, base)
    assert found is not None
    slack = 1 + 1e-9
    assert found.low <= found.median * slack and found.median <= found.high * slack


@pytest.mark.parametrize(
    ("values", "base", "more", "expected"),
    [
        pytest.param([5, 6, 7, 8], [1, 2, 3, 4], True, "faster", id="all above"),
        pytest.param([1, 2, 3, 4], [5, 6, 7, 8], True, "slower", id="all below"),
        pytest.param([1, 2, 3, 4], [5, 6, 7, 8], False, "faster", id="less time"),
        pytest.param([4, 6, 7, 8], [1, 2, 3, 5], True, "same within noise", id="one overlaps"),
        pytest.param([5, 6, 7], [1, 2, 3, 4], True, "too few repetitions", id="three"),
    ],
)
def test_verdict(values: list[float], base: list[float], more: bool, expected: str) -> None:
    found = ratio(values, base)
    assert found is not None
    assert verdict(found, more_is_faster=more) == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        pytest.param([1.1] * 5, True, id="all of five"),
        pytest.param([1.1] * 4, False, id="four are too few"),
        pytest.param([1.1] * 4 + [0.9], False, id="four of five"),
        pytest.param([1.1] * 7 + [0.9], True, id="seven of eight"),
        pytest.param([1.0] * 20, False, id="equal"),
        pytest.param([], False, id="none"),
    ],
)
def test_beyond_noise(ratios: list[float], expected: bool) -> None:
    assert beyond_noise(ratios) is expected


def test_the_best_of_several_needs_more_than_one_alone() -> None:
    assert not beyond_noise([1.1] * 5, among=2)
    assert beyond_noise([1.1] * 6, among=3)
    assert not beyond_noise([1.1] * 7 + [0.9], among=2)


@pytest.mark.parametrize("among", [1, 2, 3, 4, 9, 20])
def test_the_fewest_are_just_enough(among: int) -> None:
    assert beyond_noise([1.1] * fewest(among), among)
    assert not beyond_noise([1.1] * (fewest(among) - 1), among)


def test_what_was_not_measured_has_no_ratio() -> None:
    assert ratio([0.0, 1.0], [1.0]) is None
    assert ratio([], [1.0]) is None
