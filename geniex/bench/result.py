"""What a bench found: typed, as JSON, and read again. Speeds are tokens per second, times seconds.

A file holds every value that was measured; medians and quartiles are made from them anew.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from geniex.bench.plan import Shape
from geniex.bench.spread import Spread, paired, spread
from geniex_catalogue.errors import UsageError
from geniex_catalogue.regular import read_regular

FORMAT = 1
_MAX_BYTES = 64 << 20
Speed: TypeAlias = Literal["prefill_speed", "decode_speed", "total_speed", "ttft", "accepted"]
SPEEDS: tuple[Speed, ...] = get_args(Speed)


@dataclass(slots=True)
class Row:
    """One shape of request on one case: a value of each round.

    `decode_speed` is of one answer, `total_speed` of all answers that ran at once, their prefill
    included. `accepted` is the share of draft tokens that were accepted. `answered` is tokens. A
    speed is 0 where it could not be measured, as that of an answer of one token.
    """

    shape: Shape
    values: dict[Speed, list[float]] = field(default_factory=dict)
    answered: list[int] = field(default_factory=list)

    def add(self, speed: Speed, value: float) -> None:
        """Note a value."""
        self.values.setdefault(speed, []).append(value)

    def measured(self, speed: Speed) -> list[float]:
        """The values of the rounds in which it could be measured."""
        values = self.values.get(speed, ())
        return [value for value in values if value > 0 or speed == "accepted"]

    def spread(self, speed: Speed) -> Spread | None:
        """The spread of what was measured; None where nothing was."""
        return spread(self.measured(speed))


@dataclass(slots=True)
class CaseResult:
    """What was found of one way to run a model; `memory` is bytes, beyond those of the program.

    `first` says whether it is the one that the others of its model are compared with; `settings`
    are those of the load that no label names.
    """

    model: str
    label: str
    runtime: str
    compute: str
    devices: tuple[str, ...] = ()
    context_length: int = 0
    threads: int | None = None
    speculation: tuple[str, ...] = ()
    draft_model: str | None = None
    draft_tokens: int | None = None
    draft_adapt: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    first: bool = False
    load_time: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def row(self, shape: Shape) -> Row | None:
        """What was measured of a shape."""
        return next((row for row in self.rows if row.shape == shape), None)

    @property
    def runs_on(self) -> str:
        """Where it ran."""
        return ",".join(self.devices) or self.compute


@dataclass(slots=True)
class BenchResult:
    """One bench. `started` is UTC in ISO 8601; what is not `complete` was interrupted or failed."""

    version: str
    started: str
    machine: dict[str, Any]
    tokens: int | None
    repeat: int
    warmup: int
    complete: bool = False
    cases: list[CaseResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def base(self, case: CaseResult) -> CaseResult | None:
        """The case of the same model that this one is compared with; None for that one itself."""
        if case.first:
            return None
        return next((one for one in self.cases if one.model == case.model and one.first), None)

    def gain(self, case: CaseResult, row: Row, speed: Speed) -> Spread | None:
        """The ratio to the first case of the model, round by round."""
        base = self.base(case)
        other = base.row(row.shape) if base is not None else None
        if other is None:
            return None
        return paired(row.values.get(speed, ()), other.values.get(speed, ()))

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "geniex_bench": FORMAT,
            "version": self.version,
            "started": self.started,
            "complete": self.complete,
            "machine": self.machine,
            "tokens": self.tokens,
            "repeat": self.repeat,
            "warmup": self.warmup,
            "cases": [self._case(case) for case in self.cases],
            "notes": self.notes,
        }

    def _case(self, case: CaseResult) -> dict[str, Any]:
        return {
            **{"model": case.model, "label": case.label, "first": case.first},
            **{"runtime": case.runtime, "compute": case.compute, "devices": list(case.devices)},
            **{"context_length": case.context_length, "threads": case.threads},
            "speculation": list(case.speculation),
            "draft_model": case.draft_model,
            "draft_tokens": case.draft_tokens,
            "draft_adapt": case.draft_adapt,
            "settings": case.settings,
            "load_time": _spread(spread(case.load_time), case.load_time),
            "memory": _spread(spread(case.memory), case.memory),
            "rows": [self._row(case, row) for row in case.rows],
            "warnings": case.warnings,
        }

    def _row(self, case: CaseResult, row: Row) -> dict[str, Any]:
        gains = {speed: self.gain(case, row, speed) for speed in SPEEDS if speed != "accepted"}
        return {
            "prompt_tokens": row.shape.prompt_tokens,
            "depth": row.shape.depth,
            "parallel": row.shape.parallel,
            "answered": row.answered,
            **{speed: _spread(row.spread(speed), values) for speed, values in row.values.items()},
            "ratio": {speed: _spread(gain) for speed, gain in gains.items() if gain is not None},
        }


def _spread(found: Spread | None, values: list[float] | None = None) -> dict[str, Any] | None:
    if found is None:
        return None
    told: dict[str, Any] = {"median": found.median, "low": found.low, "high": found.high}
    return told if values is None else {**told, "values": values}


def read_result(path: Path) -> BenchResult:
    """What `geniex bench --json` wrote. Raises UsageError for what is no such file."""
    try:
        data = json.loads(read_regular(path, _MAX_BYTES))
    except OSError as exc:
        raise UsageError(f"cannot read `{path}`: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"`{path}` is no JSON", hint=_HINT) from exc
    try:
        if data["geniex_bench"] != FORMAT:
            raise UsageError(
                f"`{path}` is of format {data['geniex_bench']}, not {FORMAT}",
                hint="compare files of the same version of geniex",
            )
        return _result(data)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise UsageError(f"`{path}` is no result of a bench", hint=_HINT) from exc


_HINT = "`geniex bench MODEL --json > a.json` makes one"


def _result(data: dict[str, Any]) -> BenchResult:
    return BenchResult(
        version=str(data["version"]),
        started=str(data["started"]),
        machine=dict(data["machine"]),
        tokens=None if data["tokens"] is None else int(data["tokens"]),
        repeat=int(data["repeat"]),
        warmup=int(data["warmup"]),
        complete=bool(data["complete"]),
        cases=[_case(one) for one in data["cases"]],
        notes=[str(note) for note in data["notes"]],
    )


def _case(data: dict[str, Any]) -> CaseResult:
    return CaseResult(
        model=str(data["model"]),
        label=str(data["label"]),
        runtime=str(data["runtime"]),
        compute=str(data["compute"]),
        devices=tuple(map(str, data["devices"])),
        context_length=int(data["context_length"]),
        threads=data["threads"],
        speculation=tuple(map(str, data["speculation"])),
        draft_model=data["draft_model"],
        draft_tokens=data["draft_tokens"],
        draft_adapt=data["draft_adapt"],
        settings=dict(data.get("settings", {})),
        first=bool(data["first"]),
        load_time=_values(data["load_time"]),
        memory=_values(data["memory"]),
        rows=[_row(one) for one in data["rows"]],
        warnings=[str(text) for text in data["warnings"]],
    )


def _row(data: dict[str, Any]) -> Row:
    shape = Shape(int(data["prompt_tokens"]), int(data["depth"]), int(data["parallel"]))
    values = {speed: _values(data[speed]) for speed in SPEEDS if speed in data}
    return Row(shape, values, [int(count) for count in data["answered"]])


def _values(data: dict[str, Any] | None) -> list[float]:
    return [] if data is None else [float(value) for value in data["values"]]
