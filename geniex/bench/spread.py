"""A handful of measured values as one number and how far they lie apart, and ratios of them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["faster", "slower", "same within noise", "too few repetitions"]
ENOUGH = 4  # values, below which nothing is said about noise
_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of values; half of them lie between `low` and `high` (the quartiles)."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Sequence[float]) -> Spread | None:
    """The spread of values; None where there are none."""
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def paired(values: Sequence[float], base: Sequence[float]) -> Spread | None:
    """The ratio of values to those of `base` measured in the same rounds: noise of a round cancels.

    None where there is nothing to divide.
    """
    pairs = zip(values, base, strict=False)  # a bench that was interrupted has one more of one
    return spread([value / other for value, other in pairs if value > 0 and other > 0])


def beyond_noise(ratios: Sequence[float], among: int = 1) -> bool:
    """Whether paired ratios are above 1 so often that chance is no good explanation.

    The sign test: as many or more of them would be above 1 in less than one of 20 such runs.
    The best `among` several has as many chances to be so by luck, and less is left to each
    (Bonferroni's correction).
    """
    count = len(ratios)
    above = sum(value > 1 for value in ratios)
    tail = sum(math.comb(count, k) for k in range(above, count + 1))
    return count > 0 and tail / 2**count < _CHANCE / among


def fewest(among: int = 1) -> int:
    """How many ratios it takes at least to be beyond noise."""
    return math.floor(math.log2(among / _CHANCE)) + 1


def ratio(values: Sequence[float], base: Sequence[float]) -> Spread | None:
    """The ratio of the medians of two runs, which have no rounds in common.

    `low` and `high` are the furthest that any two of their values allow: where 1 is not between
    them, every value of one run is above every value of the other. By chance alone that happens to
    two runs of five rounds once in 126 times.
    """
    if not values or not base or min(*values, *base) <= 0:
        return None
    middle = statistics.median(values) / statistics.median(base)
    low, high = min(values) / max(base), max(values) / min(base)
    return Spread(middle, low, high, min(len(values), len(base)))


def verdict(found: Spread, *, more_is_faster: bool = True) -> Verdict:
    """What a ratio says: something only where 1 is not between its ends."""
    if found.count < ENOUGH:
        return "too few repetitions"
    if found.low <= 1 <= found.high:
        return "same within noise"
    return "faster" if (found.low > 1) == more_is_faster else "slower"
