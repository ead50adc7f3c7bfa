"""Two results against each other: ratios of what both measured, and what that says."""

import statistics
from dataclasses import dataclass
from typing import Any, TypeAlias

from geniex.bench.plan import Shape
from geniex.bench.result import BenchResult, CaseResult, Speed
from geniex.bench.spread import Spread, Verdict, ratio, verdict
from geniex.bench.table import short_names
from geniex_catalogue.errors import UsageError

COMPARED: tuple[Speed, ...] = ("prefill_speed", "decode_speed", "total_speed", "ttft")
# what two cases of one name may differ in
_FACTS = ("runtime", "compute", "devices", "threads", "draft_model", "draft_tokens", "draft_adapt")
_SHORT = {
    "prefill_speed": "prefill tok/s",
    "decode_speed": "decode tok/s",
    "total_speed": "total tok/s",
    "ttft": "ttft",
}
Place: TypeAlias = tuple[str, str, Shape]  # a model, a label, a shape


@dataclass(frozen=True, slots=True)
class Change:
    """How one measure changed; `ratio` is the second result's to the first's."""

    model: str
    label: str
    shape: Shape
    speed: Speed
    first: float
    second: float
    ratio: Spread
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two results have in common, and `notes` about what they have not."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict | str:
        """One word for all of it, or what is faster and what is slower."""
        told = [change.verdict for change in self.changes]
        up, down = told.count("faster"), told.count("slower")
        if up and down:
            return f"faster in {up} and slower in {down} of {len(told)}"
        if up or down:
            return "faster" if up else "slower"
        return "too few repetitions" if "too few repetitions" in told else "same within noise"

    def medians(self) -> dict[str, float]:
        """The middle one of each measure's ratios."""
        by_measure = {
            speed: [one.ratio.median for one in self.changes if one.speed == speed]
            for speed in COMPARED
        }
        return {
            _SHORT[speed]: statistics.median(found) for speed, found in by_measure.items() if found
        }

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "verdict": self.verdict,
            "medians": self.medians(),
            "changes": [
                {
                    **{"model": one.model, "label": one.label, "measure": one.speed},
                    **{"prompt_tokens": one.shape.prompt_tokens, "depth": one.shape.depth},
                    **{"parallel": one.shape.parallel, "first": one.first, "second": one.second},
                    **{"ratio": one.ratio.median, "low": one.ratio.low, "high": one.ratio.high},
                    "verdict": one.verdict,
                }
                for one in self.changes
            ],
            "notes": list(self.notes),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """As a table, the head first."""
        made: list[tuple[str, ...]] = [
            ("model", "settings", "request", "measure", "first", "second", "ratio", "verdict")
        ]
        names = short_names(one.model for one in self.changes)
        for one in self.changes:
            scale = 1000 if one.speed == "ttft" else 1
            unit = " ms" if one.speed == "ttft" else ""
            spread = f"{one.ratio.median:.2f}x ({one.ratio.low:.2f}-{one.ratio.high:.2f})"
            numbers = (f"{one.first * scale:.4g}", f"{one.second * scale:.4g}", spread)
            what = (one.label, _request(one.shape), _SHORT[one.speed] + unit)
            made.append((names[one.model], *what, *numbers, one.verdict))
        return made


def compare(first: BenchResult, second: BenchResult) -> Comparison:
    """The second result against the first. Raises UsageError where nothing is in both."""
    mine, other = _places(first), _places(second)
    changes = [
        change
        for place, case in mine.items()
        if place in other
        for change in _changes(place, case, other[place])
    ]
    if not changes:
        raise UsageError(
            "the two results have nothing in common",
            hint="measure the same models, settings, prompts and depths",
        )
    return Comparison(tuple(changes), tuple(_notes(first, second, mine, other)))


def _places(result: BenchResult) -> dict[Place, CaseResult]:
    return {(case.model, case.label, row.shape): case for case in result.cases for row in case.rows}


def _changes(place: Place, case: CaseResult, other: CaseResult) -> list[Change]:
    model, label, shape = place
    before, after = case.row(shape), other.row(shape)
    found: list[Change] = []
    for speed in COMPARED:
        if before is None or after is None or (speed == "total_speed" and shape.parallel == 1):
            continue
        change = ratio(after.measured(speed), before.measured(speed))
        old, new = before.spread(speed), after.spread(speed)
        if change is not None and old is not None and new is not None:
            said = verdict(change, more_is_faster=speed != "ttft")
            numbers = (old.median, new.median, change, said)
            found.append(Change(model, label, shape, speed, *numbers))
    return found


def _notes(
    first: BenchResult,
    second: BenchResult,
    mine: dict[Place, CaseResult],
    other: dict[Place, CaseResult],
) -> list[str]:
    notes = []
    for which, one in (("first", first), ("second", second)):
        if not one.complete:
            notes.append(f"the {which} result is incomplete")
    for which, some, rest in (("first", mine, other), ("second", other, mine)):
        notes += [
            f"only in the {which}: {model} {label}, {_request(shape)}"
            for model, label, shape in some
            if (model, label, shape) not in rest
        ]
    same = {place[:2]: (case, other[place]) for place, case in mine.items() if place in other}
    for (model, label), (case, after) in same.items():
        notes += [f"{model} {label}: {text}" for text in _differences(case, after)]
    if first.machine != second.machine:
        notes.append("the two were measured on different machines")
    if first.tokens != second.tokens:
        notes.append("the two asked for answers of different lengths")
    return notes


def _differences(first: CaseResult, second: CaseResult) -> list[str]:
    """How two cases of one name were not run alike."""
    before, after = ({**_facts(one), **one.settings} for one in (first, second))
    return [
        f"`{name}` is {_word(before[name])} in the first and {_word(after[name])} in the second"
        for name in before
        if name in after and before[name] != after[name]
    ]


def _facts(case: CaseResult) -> dict[str, Any]:
    return {name: getattr(case, name) for name in _FACTS}


def _word(value: object) -> str:
    if value is None or value == ():
        return "left open"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _request(shape: Shape) -> str:
    depth = f" after {shape.depth}" if shape.depth else ""
    side = f", {shape.parallel} at once" if shape.parallel > 1 else ""
    return f"{shape.prompt_tokens} tokens{depth}{side}"
