"""`geniex verify`: are the bytes on the disk what the hub said they are?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli.errors import DISK, first_of, tell
from geniex.cli.options import Json, Quiet, complete_models, settings_of
from geniex.cli.output import Output, one_line
from geniex_catalogue.errors import GenieXError, ModelNotFoundError

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.store import Store
    from geniex_catalogue.verification import Report


def verify(
    ctx: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...", help="org/repo [default: all]", autocompletion=complete_models
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Fetch again what is damaged, and only that")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that the files of models are what their hub has.

    All of them are read, and compared with the hashes that the hub stated at the pull. Damage ends
    with exit code 5. What was begun and not ended is named, and is no damage.
    """
    from geniex_catalogue.store import Store

    settings = settings_of(ctx)
    output = Output(quiet=quiet)
    store = Store(settings.data_dir)
    reports, code = [], 0
    for ref in _refs(models, store):
        report = None
        try:
            report = _check(store, ref, output)
            if report.faults and repair:
                report = _repaired(report, store, settings, output)
        except GenieXError as exc:
            if models or not isinstance(exc, ModelNotFoundError):
                code = first_of(code, tell(exc))
            # else it was removed since it was listed
        if report is None:
            continue
        reports.append(report)
        if not as_json:
            output.data(_text(report))
    if as_json:
        output.json([_json(report) for report in reports])
    elif not reports and not code:
        output.note("no model of your own is here; the built-in ones come with geniex")
    if any(report.faults for report in reports):
        code = code or DISK
    if code:
        raise typer.Exit(code)


def _refs(models: list[str] | None, store: "Store") -> "list[ModelRef]":
    if not models:
        return [model.ref for model in store.list()]
    from geniex.cli.remove import stored

    return [stored(name, store) for name in models]


def _check(store: "Store", ref: "ModelRef", output: Output) -> "Report":
    from geniex.cli.progress import shown

    model = store.find(ref)
    sizes: dict[str, int] = {}
    if model is not None and model.manifest is not None:
        sizes = {record.name: record.size for record in model.manifest.files()}
    with shown(model.size if model is not None else None, output) as progress:
        begun: set[str] = set()

        def read(file: str, count: int) -> None:
            if progress is not None:
                if file not in begun:
                    begun.add(file)
                    progress.start(file, sizes.get(file) or None, 0)
                progress.advance(file, count)

        return store.check(ref, read)


def _repaired(report: "Report", store: "Store", settings: "Settings", output: Output) -> "Report":
    """Fetch what is damaged; the report of what is there then."""
    from geniex.chipset import machine_of
    from geniex.cli.fetching import run
    from geniex_catalogue.pull_plan import PullWish
    from geniex_catalogue.renewal import plan_repairs

    for fault in report.faults:
        output.note(one_line(f"{report.model.name}: {fault.reason}"))
    wish = PullWish(offline=settings.offline, machine=machine_of(settings))
    with output.asking(f"looking for {report.model.name}..."):
        plans = plan_repairs(report, store, wish)
    for plan in plans:
        run(plan, settings, output)
    return _check(store, report.model.ref, output)


def _text(report: "Report") -> str:
    model = report.model
    lines = [f"{model.name}: {fault.reason}" for fault in report.faults]
    if not lines:
        counts = [f"{len(report.hashed)} by sha256"] if report.hashed else []
        counts += [f"{len(report.sized)} by size alone"] if report.sized else []
        lines = [
            f"{model.name}: {report.status}" + (f", files: {', '.join(counts)}" if counts else "")
        ]
    if model.partial:
        lines[-1] += f"; not fully downloaded: {', '.join(model.partial)}"
    return "\n".join(map(one_line, lines))


def _json(report: "Report") -> dict[str, Any]:
    model = report.model
    return {
        "name": model.name,
        "status": report.status,
        "precisions": sorted(model.precisions),
        "partial": sorted(model.partial),
        "hashed": list(report.hashed),
        "sized": list(report.sized),
        "faults": [
            {"file": fault.record.name if fault.record else None, "reason": fault.reason}
            for fault in report.faults
        ],
    }
