"""`geniex update`: models get what their hub has changed."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli.errors import first_of, tell
from geniex.cli.options import Json, Quiet, complete_models, settings_of
from geniex.cli.output import Output
from geniex_catalogue.errors import GenieXError

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.pull import PullPlan
    from geniex_catalogue.store import Store


def update(
    ctx: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="org/repo[:precision]", autocompletion=complete_models
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what has changed, and fetch nothing")
    ] = False,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="No bars and no lines of progress")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch the newest revision of models that are here.

    Only files that have changed are fetched, and the old ones stay until all new ones are whole.
    Where one model fails, the others are updated all the same.
    """
    from geniex.cli.fetching import plan_json, plan_text, run
    from geniex.cli.remove import stored
    from geniex_catalogue.pull_plan import require_room
    from geniex_catalogue.store import Store

    settings = settings_of(ctx)
    output = Output(quiet=quiet)
    store = Store(settings.data_dir)
    facts: list[dict[str, Any]] = []
    code = 0
    for name in models:
        try:
            ref = stored(name, store)
            for plan in _plans(ref, store, settings, output, look_only=dry_run):
                facts.append({**plan_json(plan), "updated": plan.present is None and not dry_run})
                if plan.present is not None:
                    output.note(f"{plan.ref} is the newest")
                elif dry_run and not as_json:
                    output.data(plan_text(plan))
                elif not dry_run:
                    run(plan, settings, output, progress=not no_progress)
                if dry_run:
                    require_room((plan,))
        except GenieXError as exc:
            code = first_of(code, tell(exc))
    if as_json:
        output.json(facts)
    if code:
        raise typer.Exit(code)


def _plans(
    ref: "ModelRef", store: "Store", settings: "Settings", output: Output, *, look_only: bool
) -> "tuple[PullPlan, ...]":
    from geniex.chipset import machine_of
    from geniex_catalogue.errors import ModelNotFoundError
    from geniex_catalogue.precision import require
    from geniex_catalogue.pull_plan import PullWish
    from geniex_catalogue.renewal import plan_updates

    model = store.find(ref)
    if model is None:
        raise ModelNotFoundError(str(ref))
    label = require(model.name, ref.selector, model.precisions) if ref.selector else None
    with output.asking(f"looking for {ref}..."):
        machine = machine_of(settings)
        wish = PullWish(offline=settings.offline, machine=machine, look_only=look_only)
        return plan_updates(model, label, store, wish)
