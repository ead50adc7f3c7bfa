"""`geniex bench`: how fast models run here, and which settings are the best."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli import options as shared
from geniex.cli.errors import INTERRUPTED, first_of, tell
from geniex.cli.output import Output
from geniex.keys import MOST_SLOTS, parse_compute
from geniex_catalogue.errors import UsageError

if TYPE_CHECKING:
    from geniex.bench.plan import Case
    from geniex.bench.result import BenchResult

_MOST = 1 << 24  # of any number with commas


def _list(*names: str, help: str) -> Any:
    return typer.Option(*names, metavar="N,N...", help=help)


def bench(
    ctx: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL...]",
            help="org/repo[:precision], aliases, or paths [default: the configured model]",
            autocompletion=shared.complete_models,
        ),
    ] = None,
    prompt_tokens: Annotated[
        str | None, _list("--prompt-tokens", help="Lengths of prompts [default: 128,512]")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, help="Tokens of each answer [default: 64]")
    ] = None,
    depth: Annotated[str, _list("--depth", help="Tokens that are there before the prompt")] = "0",
    parallel: Annotated[str, _list("--parallel", help="Answers at once")] = "1",
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=1000, help="Rounds")] = 5,
    warmup: Annotated[
        int, typer.Option("--warmup", min=0, max=100, help="Rounds before those, not counted")
    ] = 1,
    spec_type: Annotated[
        list[str] | None,
        typer.Option(
            "--spec-type", help="Compare plain decoding with this speculation, repeatable"
        ),
    ] = None,
    draft_model: Annotated[
        str | None,
        typer.Option(
            "--draft-model", help="The draft of those", autocompletion=shared.complete_models
        ),
    ] = None,
    draft_tokens: Annotated[
        str | None,
        _list("--draft-tokens", help="Compare these lengths of drafts, and the adaptive one"),
    ] = None,
    threads: Annotated[
        str | None, _list("--threads", help="Compare these numbers of CPU threads")
    ] = None,
    compute: Annotated[
        list[str] | None,
        typer.Option("-c", "--compute", help="cpu, gpu, npu, hybrid or devices, repeatable"),
    ] = None,
    runtime: shared.RuntimeName = None,
    nctx: Annotated[
        int | None,
        typer.Option("--nctx", min=1, help="Context length [default: what the requests need]"),
    ] = None,
    kv_type: shared.KvTypeOption = None,
    flash_attn: shared.FlashAttn = None,
    mmap: shared.Mmap = True,
    ngl: shared.GpuLayers = None,
    require: shared.Require = None,
    qairt_engine: shared.QairtEngine = None,
    as_json: shared.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it, to a .png or .svg")
    ] = None,
    save_best: Annotated[
        bool,
        typer.Option("--save-best", help="Keep each model's fastest settings, for infer and serve"),
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare two files of `--json`: bench --compare A B")
    ] = False,
    quiet: shared.Quiet = False,
    yes: shared.Yes = False,
) -> None:
    """Measure how fast models run here: prefill, decode, time to the first token, load, memory.

    Settings are measured in turns, so that ratios hold on a busy machine. Numbers are medians, with
    the quartiles in brackets. Ctrl-C ends early with what was measured until then.
    """
    output = Output(quiet=quiet)
    if as_json and csv:
        raise UsageError("give `--json` or `--csv`, not both")
    if compare:
        _compare(ctx, models or [], output, as_json=as_json)
        return
    if plot is not None:
        from geniex.bench.plot import check_plot

        check_plot(plot)
    from geniex.bench.plan import Sizes, draftings, variants

    sizes = Sizes(
        prompt_tokens=read_numbers(prompt_tokens, "--prompt-tokens") or None,
        tokens=tokens,
        depths=read_numbers(depth, "--depth", least=0),
        parallel=read_numbers(parallel, "--parallel", most=MOST_SLOTS),
    )
    ways = variants(
        draftings(spec_type or [], draft_model, read_numbers(draft_tokens, "--draft-tokens")),
        [parse_compute(unit) for unit in compute or []],
        read_numbers(threads, "--threads"),
    )
    flags: dict[str, Any] = {"runtime": runtime, "nctx": nctx, "ngl": ngl, "require": require}
    flags |= {"kv_type": kv_type, "flash_attn": flash_attn, "mmap": mmap}
    flags |= {"qairt_engine": qairt_engine}
    settings = shared.settings_of(ctx, **flags)
    from geniex.cli import bench_report
    from geniex.cli.bench_cases import Settler

    if save_best:
        bench_report.check_choice(len(ways))
    notes: list[str] = []

    def warn(text: str) -> None:
        if text not in notes:
            notes.append(text)
            output.warn(text)

    with shared.named_by(models[0] if models else None):
        settler = Settler(settings, output, warn, yes=yes or as_json or csv)
        cases = settler.cases(models or [settings.model], ways, sizes)
    result = _blank(cases, repeat, warmup, notes)
    code = _measure(cases, result, output)
    bench_report.show(result, output, as_json=as_json, csv=csv)
    if plot is not None:
        from geniex.bench.plot import draw

        draw(result, plot)
    if save_best:
        bench_report.save_best(result, cases, settings.data_dir, output)
    if code:
        raise typer.Exit(code)


def read_numbers(
    text: str | None, flag: str, least: int = 1, most: int | None = None
) -> tuple[int, ...]:
    """Whole numbers with commas, each once. Raises UsageError."""
    if text is None:
        return ()
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < least or max(numbers) > (most or _MOST):
        up = "up" if most is None else f"to {most}"
        raise UsageError(
            f"`{flag} {text}`: it takes whole numbers from {least} {up}, with commas",
            hint=f"such as `{flag} {least},{least + 1}`",
        )
    return numbers


def _compare(ctx: typer.Context, files: list[str], output: Output, *, as_json: bool) -> None:
    if len(files) != 2:
        raise UsageError("`--compare` takes two files", hint="geniex bench --compare a.json b.json")
    allowed = {"models", "compare", "as_json", "quiet"}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(str(param.name))
        if source is not None and source.name == "COMMANDLINE" and param.name not in allowed:
            raise UsageError(
                f"`{param.opts[0]}` does nothing with `--compare`", hint="leave one of them out"
            )
    from geniex.cli.bench_report import show_comparison

    show_comparison(Path(files[0]), Path(files[1]), output, as_json=as_json)


def _blank(cases: "list[Case]", repeat: int, warmup: int, notes: list[str]) -> "BenchResult":
    from datetime import UTC, datetime

    from geniex import __version__
    from geniex.bench.result import BenchResult

    machine = cases[0].machine
    return BenchResult(
        version=__version__,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        machine={
            **{"system": machine.system, "machine": machine.machine, "cpu": machine.cpu},
            **{"cores": machine.cores, "memory": machine.memory_total},
            "chipset": machine.chipset,
        },
        tokens=cases[0].fitted.tokens,
        repeat=repeat,
        warmup=warmup,
        notes=notes,
    )


def _measure(cases: "list[Case]", result: "BenchResult", output: Output) -> int:
    """Measure, and tell what failed; the answer is the exit code."""
    from geniex.bench.measuring import Bench
    from geniex.cli import terminal

    with output.status("loading...") as status:
        bench = Bench(
            cases, result, run=terminal.in_background, tell=status.update, warn=output.warn
        )
        try:
            bench.measure()
        except KeyboardInterrupt:
            terminal.settle()
            return INTERRUPTED
    code = 0
    for error in bench.errors:
        code = first_of(code, tell(error))
    return code
