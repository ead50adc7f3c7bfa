"""Numbers within bounds: exactly those, judged by comparing them."""

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex.chat.gbnf.numbers import NUMBER, integer, number


def pattern(expression: str) -> re.Pattern[str]:
    """An expression without names as a regular expression."""
    pieces = re.findall(r'"(?:[^"\\])*"|\[[^\]]*\]|\{[^}]*\}|[()|?*+]', expression)
    return re.compile("".join(re.escape(p[1:-1]) if p[0] == '"' else p for p in pieces))


BOUNDS = st.none() | st.integers(-1200, 1200)


@settings(deadline=None)
@given(BOUNDS, BOUNDS, st.integers(-1300, 1300))
def test_integers_are_those_within_the_bounds(low: int | None, high: int | None, x: int) -> None:
    expression = integer(low, high)
    within = (low is None or x >= low) and (high is None or x <= high)
    matched = expression is not None and pattern(expression).fullmatch(str(x)) is not None
    assert matched == within


@settings(deadline=None)
@given(st.none() | st.integers(), st.none() | st.integers())
def test_bounds_of_any_size(low: int | None, high: int | None) -> None:
    expression = integer(low, high)
    if low is not None and high is not None and low > high:
        assert expression is None
        return
    assert expression is not None
    for bound, outside in ((low, -1), (high, 1)):
        if bound is not None:
            assert pattern(expression).fullmatch(str(bound))
            assert not pattern(expression).fullmatch(str(bound + outside))


@pytest.mark.parametrize("text", ["01", "-0", "+1", "1.0", "", "-", "1e3"])
def test_integers_have_one_spelling(text: str) -> None:
    for bounds in ((None, None), (-5, 2000), (0, None)):
        expression = integer(*bounds)
        assert expression is not None and not pattern(expression).fullmatch(text)


DECIMALS = st.decimals(-50, 50, places=2)


@settings(deadline=None)
@given(st.none() | DECIMALS, st.none() | DECIMALS, st.booleans(), st.booleans(), st.data())
def test_numbers_are_those_within_the_bounds(
    low: Decimal | None, high: Decimal | None, above: bool, below: bool, data: st.DataObject
) -> None:
    x = data.draw(st.sampled_from([b for b in (low, high) if b is not None] or [Decimal(0)]))
    x += data.draw(st.sampled_from([Decimal(n).scaleb(-3) for n in (-1000, -10, -1, 0, 1, 10)]))
    expression = number(low, high, above=above, below=below)
    within = (low is None or (x > low if above else x >= low)) and (
        high is None or (x < high if below else x <= high)
    )
    text = format(x if x else abs(x), "f")
    assert (expression is not None and bool(pattern(expression).fullmatch(text))) == within


@pytest.mark.parametrize("text", ["0", "-0", "12.5", "-3e8", "1E-7", "0.001"])
def test_numbers_without_bounds(text: str) -> None:
    assert pattern(NUMBER).fullmatch(text)


@pytest.mark.parametrize("text", ["01", ".5", "1.", "1e", "--1", ""])
def test_what_is_no_number(text: str) -> None:
    assert not pattern(NUMBER).fullmatch(text)
