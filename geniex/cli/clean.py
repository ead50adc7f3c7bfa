"""`geniex clean`: all models, or what was begun and not ended, go from the disk."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from geniex.cli.errors import first_of, tell
from geniex.cli.options import Json, Yes, settings_of
from geniex.cli.output import Output, confirm, waiting_for
from geniex_catalogue.errors import GenieXError, StoreBusyError
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex_catalogue.store import Store
    from geniex_catalogue.stored import StoredModel

_DAY = 86400.0


def clean(
    ctx: typer.Context,
    partial: Annotated[
        bool, typer.Option("--partial", help="Only downloads that were begun and not ended")
    ] = False,
    days: Annotated[
        float,
        typer.Option("--older-than", min=0, metavar="DAYS", help="With --partial: by their age"),
    ] = 0.0,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Remove all models, partial and damaged ones too.

    Where one cannot be removed, the others are all the same. Nothing is ever removed by itself.
    """
    from geniex_catalogue.errors import UsageError
    from geniex_catalogue.store import Store

    if days and not partial:
        raise UsageError("`--older-than` is for `--partial`", hint="add `--partial`")
    output = Output()
    store = Store(settings_of(ctx).data_dir)
    models = store.list()
    if partial:
        models = [model for model in models if _is_due(model, days)]
    if not yes:
        what = "all unfinished downloads" if partial else "all cached models"
        confirm(f"Are you sure you want to delete {what} in {store.models}?")
    names, freed, code = [], 0, 0
    for model in models:
        try:
            freed += _clear(store, model, output, partial=partial)
            names.append(model.name)
        except StoreBusyError as exc:
            output.warn(f"{model.name} is left alone: {exc.message}")
        except GenieXError as exc:
            code = first_of(code, tell(exc))
    if as_json:
        output.json({"removed": names, "freed": freed})
    kind = "unfinished download" if partial else "model"
    many = "" if len(names) == 1 else "s"
    output.tell(f"Removed {len(names)} {kind}{many}, {size_text(freed)} freed")
    if code:
        raise typer.Exit(code)


def _clear(store: "Store", model: "StoredModel", output: Output, *, partial: bool) -> int:
    if partial:
        return store.discard_partial(model.ref, timeout=0)
    return store.remove(model.ref, on_wait=waiting_for(model.name, output))


def _is_due(model: "StoredModel", days: float) -> bool:
    """Whether a model has an unfinished download that is so old."""
    from geniex_catalogue.manifest import INFLIGHT
    from geniex_catalogue.staging import partials

    if not (model.folder / INFLIGHT).is_dir():
        return False
    ages = [time.time() - found.touched for found in partials(model.folder / INFLIGHT)]
    return min(ages, default=days * _DAY) >= days * _DAY
