"""A result as rows of text: for the terminal, and as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TypeAlias

from geniex.bench.result import SPEEDS, BenchResult, CaseResult, Row, Speed
from geniex.bench.spread import Spread, spread

Rows: TypeAlias = list[tuple[str, ...]]
_MEBI = 1 << 20


def speeds(result: BenchResult) -> Rows:
    """A row for each case and shape, the head first: medians, with quartiles in brackets."""
    rows = [(case, row) for case in result.cases for row in case.rows]
    names = short_names(case.model for case in result.cases)
    deep = any(row.shape.depth for _, row in rows)
    wide = any(row.shape.parallel > 1 for _, row in rows)
    several = any(not case.first for case, _ in rows)
    drafts = any("accepted" in row.values for _, row in rows)
    head = ["model", "settings", "prompt"]
    head += ["depth"] * deep + ["parallel"] * wide
    head += ["prefill tok/s", "decode tok/s"] + ["to first"] * several + ["accepted"] * drafts
    head += ["total tok/s"] * wide + ["ttft ms"]
    made = [tuple(head)]
    for case, row in rows:
        cells = [names[case.model], case.label, str(row.shape.prompt_tokens)]
        cells += [str(row.shape.depth)] * deep + [str(row.shape.parallel)] * wide
        cells += [_cell(row.spread("prefill_speed")), _cell(row.spread("decode_speed"))]
        cells += [_ratio(result.gain(case, row, "decode_speed"))] * several
        cells += [_share(row.spread("accepted"))] * drafts
        cells += [_cell(row.spread("total_speed"))] * wide
        cells += [_cell(row.spread("ttft"), 1000)]
        made.append(tuple(cells))
    return made


def loads(result: BenchResult) -> Rows:
    """A row for each case, the head first: how long it loads, what it takes, where it runs."""
    made: Rows = [("model", "settings", "load s", "memory MiB", "context", "runs on")]
    names = short_names(case.model for case in result.cases)
    for case in result.cases:
        cells = (_cell(spread(case.load_time)), _cell(spread(case.memory), 1 / _MEBI))
        where = f"{case.runtime}, {case.runs_on}"
        made.append((names[case.model], case.label, *cells, str(case.context_length), where))
    return made


def short_names(models: Iterable[str]) -> dict[str, str]:
    """What to call models in a table: of a long path its last part, where that tells them apart."""
    whole = tuple(dict.fromkeys(models))
    paths = map(PurePath, whole)
    short = [
        path.name if len(path.parts) > 2 else name for name, path in zip(whole, paths, strict=True)
    ]
    return {
        name: brief if short.count(brief) == 1 else name
        for name, brief in zip(whole, short, strict=True)
    }


def as_csv(result: BenchResult) -> str:
    """A line for each case and shape: medians and quartiles; the last line is without its end."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    named = [(speed, f"{speed}{part}") for speed in SPEEDS for part in ("", "_low", "_high")]
    names = [name for _, name in named]
    writer.writerow([*_FACTS, "complete", "load_time", "memory", *names, "decode_ratio"])
    for case in result.cases:
        for row in case.rows:
            gain = result.gain(case, row, "decode_speed")
            loaded = [_median(spread(case.load_time)), _median(spread(case.memory))]
            measured = [value for speed in SPEEDS for value in _parts(row, speed)]
            facts = _facts(case, row)
            writer.writerow([*facts, int(result.complete), *loaded, *measured, _median(gain)])
    return text.getvalue().rstrip("\n")


_FACTS = (
    *("model", "settings", "runtime", "compute", "context_length"),
    *("prompt_tokens", "depth", "parallel", "answered"),
)


def _facts(case: CaseResult, row: Row) -> Sequence[str | int]:
    shape = row.shape
    answered = sum(row.answered)
    return (
        *(case.model, case.label, case.runtime, case.compute, case.context_length),
        *(shape.prompt_tokens, shape.depth, shape.parallel, answered),
    )


def _parts(row: Row, speed: Speed) -> tuple[str, ...]:
    found = row.spread(speed)
    return (
        ("", "", "")
        if found is None
        else tuple(map(_number, (found.median, found.low, found.high)))
    )


def _number(value: float) -> str:
    return f"{value:.6g}"


def _median(found: Spread | None) -> str:
    return "" if found is None else _number(found.median)


def _cell(found: Spread | None, factor: float = 1.0) -> str:
    if found is None:
        return "-"
    middle, low, high = (_short(v * factor) for v in (found.median, found.low, found.high))
    return middle if found.count == 1 else f"{middle} ({low}-{high})"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(found: Spread | None) -> str:
    if found is None:
        return ""
    if found.count == 1:
        return f"{found.median:.2f}x"
    return f"{found.median:.2f}x ({found.low:.2f}-{found.high:.2f})"


def _share(found: Spread | None) -> str:
    return "" if found is None else f"{found.median:.0%}"
