"""`geniex doctor`: what would run a model here, and why."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli import options as shared
from geniex.cli.devices import machine_json, probes_table
from geniex.cli.output import Output, table
from geniex.config import Settings
from geniex_catalogue.errors import BundleError
from geniex_catalogue.sizes import size_text
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.kv_cache import kept_in

if TYPE_CHECKING:
    from geniex_runtimes.contract import HardwareProfile
    from geniex_runtimes.planning import (
        Plan,
    )


def doctor(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A model that is here [default: the configured model]",
            autocompletion=shared.complete_models,
        ),
    ] = None,
    compute: shared.Compute = None,
    runtime: shared.RuntimeName = None,
    nctx: shared.ContextLength = None,
    kv_type: shared.KvTypeOption = None,
    flash_attn: shared.FlashAttn = None,
    ngl: shared.GpuLayers = None,
    require: shared.Require = None,
    as_json: shared.Json = False,
    report: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="[FILE]",
            help="Write what a bug report needs into a text file, redacted; - is stdout",
        ),
    ] = None,
) -> None:
    """Show what would run a model here, and why.

    What the probes found, the choice with its reasons, the memory it needs and the memory there.
    With `--report` it packs what a bug report needs instead.
    """
    chosen: dict[str, Any] = {"compute": compute, "runtime": runtime, "nctx": nctx, "ngl": ngl}
    chosen |= {"require": require, "kv_type": kv_type, "flash_attn": flash_attn}
    settings = shared.settings_of(ctx, **chosen)
    if report is not None:
        _report(report, settings)
        return
    from geniex import session
    from geniex.cli.terminal import in_background
    from geniex_runtimes.bundle_plan import check_bundle

    output = Output()
    with shared.named_by(model):
        resolved = session.find_local_model(settings.model if model is None else model, settings)
    with output.status("looking at the hardware..."):
        machine = in_background(lambda: session.look_at_hardware(settings))
    plan, refused = None, None
    try:
        plan = session.plan_on(machine, resolved, session.wish_of(settings))
        check_bundle(resolved)
    except (NoRuntimeError, BundleError) as exc:
        refused = exc
    if as_json:
        output.json(
            {
                "model": resolved.name,
                "format": resolved.format,
                "size": resolved.size,
                "plan": asdict(plan) if plan else None,
                "refusals": _refusals(refused, plan),
                "machine": machine_json(machine),
            }
        )
    else:
        output.data(probes_table(machine))
        if plan:
            output.data(f"\n{_plan_text(resolved.name, resolved.size, plan)}")
    if refused:
        raise refused


def _report(target: str, settings: Settings) -> None:
    """Write a report, and say what it holds."""
    from geniex import session
    from geniex.bug_report import writing
    from geniex.cli.terminal import in_background

    def look() -> "HardwareProfile":
        return in_background(lambda: session.look_at_hardware(settings))

    output = Output()
    with output.status("looking at this machine..."):
        text, parts = writing.report(settings, os.environ, look)
    if target == "-":
        output.data(text)
        return
    path = Path(target or writing.default_name())
    writing.write_report(path, text)
    output.data(str(path))
    output.tell("It holds:")
    for part in parts:
        output.tell(f"  {part.title}: {part.what}")
    output.tell(
        "Secrets, names and folders of yours were taken out as far as a program can tell. "
        "Look through it before you send it."
    )


def _refusals(refused: NoRuntimeError | BundleError | None, plan: "Plan | None") -> list[str]:
    if isinstance(refused, BundleError):
        return [refused.message]
    if refused is not None:
        return list(refused.refusals)
    return list(plan.refusals) if plan else []


def _plan_text(name: str, size: int, plan: "Plan") -> str:
    fits = plan.needed_memory <= plan.available_memory
    rows = [
        ("model", f"{name}, {size_text(size)}"),
        ("runtime", plan.runtime),
        ("compute", f"{plan.compute} {','.join(plan.devices)}".rstrip()),
        ("context", f"{plan.context_length} tokens{kept_in(plan.kv_type)}"),
        ("memory needed", size_text(plan.needed_memory)),
        ("memory there", f"{size_text(plan.available_memory)}{'' if fits else ', too little'}"),
        *(("because", reason) for reason in plan.reasons),
        *(("not taken", refusal) for refusal in plan.refusals),
        *(("note", note) for note in plan.notes),
    ]
    return table(rows)
