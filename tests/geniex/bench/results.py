"""Results made by hand: what a bench of these numbers would have found."""

from geniex.bench.plan import Shape
from geniex.bench.result import BenchResult, CaseResult, Row, Speed

MACHINE = {"cpu": "Scripted CPU", "cores": 4}
FIRST = Shape(128)


def row(shape: Shape = FIRST, /, **values: list[float]) -> Row:
    """A row with these values; `decode=[...]` is `decode_speed`."""
    named: dict[str, Speed] = {
        **{"decode": "decode_speed", "prefill": "prefill_speed", "total": "total_speed"},
        **{"ttft": "ttft", "accepted": "accepted"},
    }
    return Row(shape, {named[name]: list(found) for name, found in values.items()}, [64])


def case(label: str, *rows: Row, model: str = "org/m:Q4_0") -> CaseResult:
    """A case with these rows; the plain one is the first."""
    return CaseResult(
        model,
        label,
        "llama_cpp",
        "cpu",
        context_length=1024,
        first=label == "plain",
        load_time=[0.5, 0.7],
        memory=[float(3 << 20)],
        rows=list(rows),
    )


def result(*cases: CaseResult, complete: bool = True) -> BenchResult:
    """A result with these cases."""
    return BenchResult(
        version="1",
        started="2026-01-01T00:00:00+00:00",
        machine=dict(MACHINE),
        tokens=64,
        repeat=5,
        warmup=1,
        complete=complete,
        cases=list(cases),
    )
