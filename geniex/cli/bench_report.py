"""What `geniex bench` says at its end: tables, files, verdicts, the best settings kept."""

import sys
from pathlib import Path

from geniex.bench.choice import choose, choose_model
from geniex.bench.comparison import compare
from geniex.bench.plan import Case
from geniex.bench.result import BenchResult, read_result
from geniex.bench.table import Rows, as_csv, loads, speeds
from geniex.cli.output import Output, has_colour, table
from geniex.config_file import ConfigFile
from geniex.tuned import kept_name
from geniex_catalogue.errors import UsageError

_WORDS = ("model", "settings", "request", "measure", "verdict", "runs on")  # no numbers


def show(result: BenchResult, output: Output, *, as_json: bool, csv: bool) -> None:
    """Write the result to stdout: JSON, CSV, or tables."""
    if as_json:
        output.json(result.as_dict())
        return
    if csv:
        output.data(as_csv(result))
        return
    _table(speeds(result), output)
    output.data("")
    _table(loads(result), output)
    for model in dict.fromkeys(case.model for case in result.cases):
        choice = choose(result, model)
        if choice is None or len([c for c in result.cases if c.model == model]) < 2:
            continue
        if choice.gain is None:
            output.note(f"{model}: nothing is faster than {choice.case.label} beyond noise")
            if choice.lacking:
                output.note(
                    f"so many settings take {choice.lacking} rounds to tell, prompt lengths "
                    "counted each: raise `--repeat`"
                )
        else:
            gain = f"{choice.gain.median:.2f}x ({choice.gain.low:.2f}-{choice.gain.high:.2f})"
            output.note(f"{model}: {choice.case.label} is the fastest, {gain} in decoding")
    _tell_model(result, output)
    if not result.complete:
        output.warn("incomplete: this is what was measured until it ended")


def _tell_model(result: BenchResult, output: Output) -> None:
    choice = choose_model(result)
    if choice is None:
        return
    if choice.gain is None:
        output.note(f"no model decodes faster than {choice.case.model} beyond noise")
        return
    gain = f"{choice.gain.median:.2f}x ({choice.gain.low:.2f}-{choice.gain.high:.2f})"
    output.note(f"of these models {choice.case.model} decodes fastest, {gain} of the first one")


def _table(rows: Rows, output: Output) -> None:
    if not has_colour(sys.stdout):
        output.data(table(rows))
        return
    from rich.console import Console
    from rich.table import Table

    title = None
    if len({row[0] for row in rows[1:]}) == 1:  # said once, there is room for the numbers
        title = rows[1][0]
        rows = [row[1:] for row in rows]
    head, *body = rows
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in head:
        made.add_column(name, justify="left" if name in _WORDS else "right", overflow="fold")
    for row in body:
        made.add_row(*row)
    console = Console(markup=False, highlight=False)
    with console.capture() as captured:
        console.print(made)
    output.data(captured.get().rstrip("\n"))


def show_comparison(first: Path, second: Path, output: Output, *, as_json: bool) -> None:
    """Write how the second result compares to the first. Raises UsageError for bad files."""
    found = compare(read_result(first), read_result(second))
    if as_json:
        output.json(found.as_dict())
        return
    for note in found.notes:
        output.warn(note)
    _table(found.rows(), output)
    medians = ", ".join(f"{name} {value:.2f}x" for name, value in found.medians().items())
    output.data(f"\nverdict: {second} against {first}: {found.verdict} ({medians})")


def save_best(result: BenchResult, cases: list[Case], data_dir: Path, output: Output) -> None:
    """Keep the best settings of each model. Raises StoreError."""
    if not result.complete:
        output.warn("no best settings are kept of an incomplete bench")
        return
    file = ConfigFile(data_dir)
    for name in dict.fromkeys(case.model.name for case in cases):
        mine = [case for case in cases if case.model.name == name]
        measured = {case.label for case in result.cases if case.model == name and case.rows}
        choice = choose(result, name)
        if choice is None or len(measured) < 2:
            output.warn(f"{name}: nothing to choose from, no best settings are kept")
            continue
        if choice.lacking:
            output.warn(
                f"{name}: no best settings are kept: so many settings take {choice.lacking} "
                "rounds to tell, prompt lengths counted each: raise `--repeat`"
            )
            continue
        winner = next(case for case in mine if case.variant.label == choice.case.label)
        compared = any(
            case.variant.drafting.spec_type is not None
            for case in mine
            if case.variant.label in measured
        )
        draft = winner.speculation.draft
        best = winner.variant.best(
            kept_name(winner.model),
            draft=kept_name(draft) if draft is not None else None,
            compared=compared,
        )
        aside = file.set_best(best)
        if aside is not None:
            output.warn(f"the damaged settings are kept as `{aside}`")
        output.note(f"kept `{best.key}`: {best.text()}; `infer` and `serve` use it from now on")


def check_choice(variants: int) -> None:
    """Raise UsageError where `--save-best` could only choose what is chosen anyway."""
    if variants < 2:
        raise UsageError(
            "`--save-best` has nothing to choose from",
            hint="compare something: `--spec-type auto`, `--threads 2,4`, `-c cpu -c gpu`",
        )
