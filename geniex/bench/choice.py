"""Which way to run a model was the fastest, and whether that is more than noise."""

from dataclasses import dataclass

from geniex.bench.result import BenchResult, CaseResult
from geniex.bench.spread import Spread, beyond_noise, fewest, spread


@dataclass(frozen=True, slots=True)
class Choice:
    """The fastest case of a model; `gain` is its decode speed to the first one's, None for that.

    `lacking` is how many ratios there would have to be before any could be faster; 0 for enough.
    """

    case: CaseResult
    gain: Spread | None = None
    lacking: int = 0


def choose(result: BenchResult, model: str) -> Choice | None:
    """The case that decodes fastest; the first one where none is faster beyond noise.

    None where the model has no first case that was measured.
    """
    cases = [case for case in result.cases if case.model == model and case.rows]
    first = next((case for case in cases if case.first), None)
    if first is None:
        return None
    return _fastest(first, [case for case in cases if case is not first])


def choose_model(result: BenchResult) -> Choice | None:
    """The fastest of the models, each as it was fastest; `gain` is to the first model.

    The first one where none is faster beyond noise; None where there are no two to compare.
    """
    models = dict.fromkeys(case.model for case in result.cases)
    chosen = [found.case for model in models if (found := choose(result, model)) is not None]
    if len(chosen) < 2:
        return None
    return _fastest(chosen[0], chosen[1:])


def _fastest(first: CaseResult, others: list[CaseResult]) -> Choice:
    needed = fewest(len(others)) if others else 0
    most = max((len(_ratios(case, first)) for case in others), default=0)
    best = Choice(first, lacking=needed if most < needed else 0)
    for case in others:
        ratios = _ratios(case, first)
        gain = spread(ratios)
        if gain is None or not beyond_noise(ratios, len(others)):
            continue
        if best.gain is None or gain.median > best.gain.median:
            best = Choice(case, gain)
    return best


def _ratios(case: CaseResult, first: CaseResult) -> list[float]:
    """The ratios of decode speeds, of every shape and round."""
    ratios: list[float] = []
    for row in case.rows:
        other = first.row(row.shape)
        if other is None:
            continue
        mine, base = row.values.get("decode_speed", []), other.values.get("decode_speed", [])
        ratios += [a / b for a, b in zip(mine, base, strict=False) if a > 0 and b > 0]
    return ratios
