"""Numbers within bounds, as expressions over their digits."""

import math
from decimal import Decimal

from geniex.chat.gbnf.rules import either

_DIGITS = 15  # of a number without a bound: what a double holds exactly
_DECIMALS = 3  # of a number with bounds, or as many as its bounds have
MAX_DIGITS = 30
MAX_DECIMALS = 8

FRACTION = rf'("." [0-9]{{1,{_DIGITS}}})?'
NUMBER = rf'"-"? ("0" | [1-9] [0-9]{{0,{_DIGITS - 1}}}) {FRACTION} ([eE] [-+]? [0-9]{{1,2}})?'


def integer(low: int | None, high: int | None) -> str | None:
    """Whole numbers from `low` to `high`, both included; None where there is none."""
    if low is not None and high is not None and low > high:
        return None
    ways: list[str] = []
    if low is None or low < 0:
        least = 1 if high is None or high >= 0 else -high
        ways += [f'"-" {_magnitude(least, None if low is None else -low)}']
    if high is None or high >= 0:
        ways.append(_magnitude(max(low or 0, 0), high))
    return either(ways)


def number(low: Decimal | None, high: Decimal | None, *, above: bool, below: bool) -> str | None:
    """Numbers between bounds, which `above` and `below` leave out; None where there is none.

    They have at most as many decimals as a bound has, or three. No exponents.
    """
    places = max(_DECIMALS, *map(_places, filter(None, (low, high))), 0)
    ways = []
    for decimals in range(places + 1):
        unit = Decimal(1).scaleb(-decimals)
        first = None if low is None else _next_up(low / unit, strictly=above)
        last = None if high is None else -_next_up(-high / unit, strictly=below)
        way = _fixed(first, last, decimals)
        ways += [way] if way else []
    return either(ways) if ways else None


def _places(bound: Decimal) -> int:
    exponent = bound.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _next_up(value: Decimal, *, strictly: bool) -> int:
    """The first whole number from `value` on, or after it."""
    return math.floor(value) + 1 if strictly else math.ceil(value)


def _fixed(low: int | None, high: int | None, decimals: int) -> str | None:
    """The numbers with so many decimals, whose digits without the point are in a range."""
    if decimals == 0:
        return integer(low, high)
    if low is not None and high is not None and low > high:
        return None
    ways = []
    if low is None or low < 0:
        least = 0 if high is None or high >= 0 else -high
        ways.append(f'"-" {_magnitude(least, None if low is None else -low, decimals)}')
    if high is None or high >= 0:
        ways.append(_magnitude(max(low or 0, 0), high, decimals))
    return either(ways)


def _magnitude(low: int, high: int | None, decimals: int = 0) -> str:
    """Numbers from `low` to `high` without a sign; the last digits are decimals."""
    width = decimals + 1
    first = str(low).zfill(width)
    if high is None:
        longest = max(_DIGITS, len(first) + 3)
        open_end = _pointed(
            f"[1-9] [0-9]{{{len(first) - decimals},{longest - decimals}}}", decimals
        )
        return either([*_equal_length(first, "9" * len(first), decimals), open_end])
    last = str(high).zfill(width)
    ways = []
    for length in range(len(first), len(last) + 1):
        begin = first if length == len(first) else "1" + "0" * (length - 1)
        end = last if length == len(last) else "9" * length
        ways += _equal_length(begin, end, decimals)
    return either(ways)


def _pointed(whole: str, decimals: int) -> str:
    return f'{whole} "." [0-9]{{{decimals}}}' if decimals else whole


def _equal_length(begin: str, end: str, decimals: int) -> list[str]:
    """Expressions for the texts of digits from `begin` to `end`, which are equally long."""
    if not begin:
        return [""]
    # what stands before the first digit of the decimals
    point = '"." ' if decimals and len(begin) == decimals else ""
    if set(begin) == {"0"} and set(end) == {"9"}:
        return [_any_digits(len(begin), decimals)]
    first, last = int(begin[0]), int(end[0])
    if first == last:
        rests = _equal_length(begin[1:], end[1:], decimals)
        return [f'{point}"{first}" {either(rests)}'.rstrip()]
    low_rests = _equal_length(begin[1:], "9" * (len(begin) - 1), decimals)
    high_rests = _equal_length("0" * (len(begin) - 1), end[1:], decimals)
    ways = [f'{point}"{first}" {either(low_rests)}'.rstrip()]
    if last - first > 1:
        middle = f"[{first + 1}-{last - 1}]"
        ways.append(f"{point}{middle} {_any_digits(len(begin) - 1, decimals)}".rstrip())
    return [*ways, f'{point}"{last}" {either(high_rests)}'.rstrip()]


def _any_digits(count: int, decimals: int) -> str:
    """So many digits of any kind, with the point before the decimals."""
    if not decimals or count < decimals:
        return f"[0-9]{{{count}}}" if count else ""
    whole = f"[0-9]{{{count - decimals}}} " if count > decimals else ""
    return f'{whole}"." [0-9]{{{decimals}}}'
