"""A picture of a result: a bar for each way to run a model, by request; needs matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

from geniex.bench.result import BenchResult, CaseResult, Speed
from geniex.bench.spread import Spread
from geniex_catalogue.errors import UsageError
from geniex_catalogue.extras import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXTRA = "bench-plot"
SUFFIXES = (".png", ".svg")
_PANELS: tuple[tuple[Speed, str], ...] = (
    ("decode_speed", "decode, tokens per second"),
    ("prefill_speed", "prefill, tokens per second"),
)
_BAR = 0.35  # inches of height for each bar


def check_plot(path: Path) -> None:
    """Refuse, before anything is measured, a picture that could not be drawn. Raises UsageError."""
    from importlib.util import find_spec

    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"`{path}` is no picture", hint="`--plot` takes a .png or .svg file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"`{path.parent}` is not a folder", hint="make it first")
    if find_spec("matplotlib") is None:
        raise UsageError(
            f"`--plot` needs matplotlib, which the extra `{EXTRA}` brings",
            hint=install(EXTRA),
        )


def draw(result: BenchResult, path: Path) -> None:
    """Draw the medians, with their quartiles, to a .png or .svg file. Raises UsageError."""
    from matplotlib.figure import Figure

    bars = max(1, sum(len(case.rows) for case in result.cases))
    figure = Figure(figsize=(12, 1.5 + _BAR * bars), layout="constrained")
    for axes, (speed, title) in zip(figure.subplots(1, 2, sharey=True), _PANELS, strict=True):
        _panel(axes, result, speed)
        axes.set_title(title)
        axes.grid(axis="x", alpha=0.3)
    figure.axes[0].invert_yaxis()
    if not result.complete:
        figure.suptitle("incomplete")
    try:
        figure.savefig(path, dpi=120)
    except OSError as exc:
        raise UsageError(f"cannot write `{path}`: {exc.strerror}") from exc


def _panel(axes: "Axes", result: BenchResult, speed: Speed) -> None:
    names: list[str] = []
    middles: list[float] = []
    below: list[float] = []
    above: list[float] = []
    colours: list[str] = []
    for number, case in enumerate(result.cases):
        for row in case.rows:
            found = row.spread(speed) or Spread(0.0, 0.0, 0.0, 0)
            shape = row.shape
            names.append(f"{_name(case)}\n{shape.prompt_tokens}+{shape.depth}, x{shape.parallel}")
            middles.append(found.median)
            below.append(found.median - found.low)
            above.append(found.high - found.median)
            colours.append(f"C{number % 10}")
    axes.barh(range(len(names)), middles, xerr=(below, above), color=colours, capsize=3)
    axes.set_yticks(range(len(names)), names, fontsize=7)


def _name(case: CaseResult) -> str:
    return f"{case.model}, {case.label}"
