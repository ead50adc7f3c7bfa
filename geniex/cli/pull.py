"""`geniex pull`: a model comes onto the disk, from a hub or from a local path."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli import options as shared
from geniex.cli.fetching import plan_json, plan_text, planned, run
from geniex.cli.hub_names import HubName, ref_at
from geniex.cli.model_json import model_json
from geniex.cli.output import Output, one_line, waiting_for
from geniex_catalogue.errors import ModelNotFoundError, ModelRefError, UsageError
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.hubs.localfs import Mode
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.pull import PullPlan
    from geniex_catalogue.stored import StoredModel


def pull(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="org/repo[:precision], an alias, or with --local-path a name like local/NAME",
            autocompletion=shared.complete_models,
        ),
    ],
    hub: Annotated[
        HubName | None,
        typer.Option("--model-hub", help="Where it comes from [default: as its name says]"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="A branch, tag or commit of the repository")
    ] = None,
    local_path: Annotated[
        Path | None,
        typer.Option("--local-path", help="A GGUF file, a folder or a zip to take it from"),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="With --local-path: hard links instead of copies")
    ] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="With --local-path: leave the files where they are")
    ] = False,
    precision: Annotated[
        str | None, typer.Option("--precision", help="As `:PRECISION` in the name")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", help="A file of the repository by its name; again for more"),
    ] = None,
    with_draft: Annotated[
        bool, typer.Option("--with-draft", help="Its draft for speculative decoding too")
    ] = False,
    max_workers: Annotated[
        int | None,
        typer.Option("--max-workers", min=1, max=64, help="Requests at a time [default: 8]"),
    ] = None,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="No bars and no lines of progress")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be fetched, and fetch nothing")
    ] = False,
    as_json: shared.Json = False,
    yes: shared.Yes = False,
    quiet: shared.Quiet = False,
) -> None:
    """Fetch a model onto this disk.

    What an earlier try, or another program on this machine, has fetched is used. Without a
    precision the best for this machine is taken.
    """
    settings = shared.settings_of(ctx)
    from geniex_catalogue.names import local_path as local_path_of

    output = Output(quiet=quiet)
    if local_path is None and local_path_of(model) is not None:
        raise UsageError(
            f"`{model}` is a path of this machine",
            hint=f"`geniex infer {model}` runs it as it is; "
            f"`geniex pull local/NAME --local-path {model}` takes it into the store",
        )
    try:
        ref = ref_at(model, precision, hub)
    except ModelNotFoundError as exc:
        if local_path is None:
            raise
        raise ModelRefError(
            f"`{model}` is no name for a model", hint="give it one like `local/NAME`"
        ) from exc
    local = hub is not None and hub.is_local
    if local_path is None and (local or link or in_place):
        raise UsageError("`--local-path` is missing", hint="give the path of what to import")
    if local_path is None:
        from geniex_catalogue.pull_plan import PullWish, require_room

        wish = PullWish(revision, tuple(files or ()), with_draft, look_only=dry_run)
        ask = not (yes or quiet or as_json or dry_run)
        plans = planned(ref, settings, output, wish, ask=ask)
        if dry_run:
            _show_plans(plans, output, as_json=as_json)
            require_room(plans)
            return
        progress = not no_progress
        models = [
            run(plan, settings, output, max_workers=max_workers, progress=progress)
            for plan in plans
        ]
        _tell(models, "Download success", output, as_json=as_json)
        return
    alien = {
        "--model-hub": hub is not None and not local,
        "--revision": revision,
        "--file": files,
        "--with-draft": with_draft,
        "--max-workers": max_workers,
        "--dry-run": dry_run,
    }
    if given := [flag for flag, value in alien.items() if value]:
        raise UsageError(
            "`--local-path` is a source of its own", hint=f"leave out {', '.join(given)}"
        )
    if link and in_place:
        raise UsageError("`--link` and `--in-place` exclude each other", hint="give one of them")
    mode: Mode = "link" if link else "in_place" if in_place else "copy"
    stored = _import(ref, local_path, settings, output, mode, progress=not no_progress)
    _tell([stored], "Import success", output, as_json=as_json)


def _tell(models: "list[StoredModel]", success: str, output: Output, *, as_json: bool) -> None:
    if as_json:
        output.json(_with_draft([model_json(model) for model in models]))
    for model in models:
        output.note(success)
        output.note(f"Size:      {size_text(model.size)}")
        output.note(f"Location:  {model.folder}")
        output.note(f"Precision: {', '.join(model.precisions)}")


def _with_draft(values: list[dict[str, Any]]) -> dict[str, Any]:
    """One JSON object for a model, with that of its draft inside."""
    first, *rest = values
    return {**first, "draft": rest[0] if rest else None}


def _show_plans(plans: "Sequence[PullPlan]", output: Output, *, as_json: bool) -> None:
    for plan in plans:
        for note in plan.delivery.notes if plan.delivery else ():
            output.note(one_line(note))
    if as_json:
        output.json(_with_draft([plan_json(plan) for plan in plans]))
    else:
        output.data("\n\n".join(plan_text(plan) for plan in plans))


def _import(
    ref: "ModelRef",
    path: Path,
    settings: "Settings",
    output: Output,
    mode: "Mode",
    *,
    progress: bool,
) -> "StoredModel":
    from geniex.bundle_import import import_checked
    from geniex.cli.progress import shown
    from geniex_catalogue.store import Store

    store = Store(settings.data_dir)
    on_wait = waiting_for(str(ref), output)
    notes: list[str] = []
    with shown(None, output, wanted=progress) as watcher:
        stored = import_checked(
            ref, path.expanduser(), store, mode, notes.append, progress=watcher, on_wait=on_wait
        )
    for note in notes:
        output.warn(one_line(note))
    return stored
