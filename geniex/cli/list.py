"""`geniex list`: the models on disk."""

import csv
import io
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli.options import Json, settings_of
from geniex.cli.output import Output, table
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex_catalogue.stored import StoredModel

_RUNTIMES = {"gguf": "llama_cpp", "qairt": "qairt"}


class Format(StrEnum):
    """How the list is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def list_models(
    ctx: typer.Context,
    form: Annotated[
        Format, typer.Option("--format", help="How the list is written")
    ] = Format.TABLE,
    as_json: Json = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Partial and damaged models too")
    ] = False,
) -> None:
    """List the models that are here."""
    from geniex_catalogue.store import Store

    settings = settings_of(ctx)
    output = Output()
    store = Store(settings.data_dir)
    found = store.list()
    models = [model for model in found if everything or model.status == "ready"]
    if as_json or form is Format.JSON:
        output.json([_facts(model) for model in models])
    elif form is Format.CSV:
        output.data(_csv(models, everything))
    else:
        output.data(f"Models cached in {store.models}\n")
        output.data(_table(models, everything, settings.verbose))
        if not found:
            output.note("\nnone yet; `geniex pull org/repo` fetches one")
        elif len(models) < len(found):
            output.note(f"\n{len(found) - len(models)} not usable, see `geniex list --all`")


def _facts(model: "StoredModel") -> dict[str, Any]:
    return {
        "name": model.name,
        "size": model.size,
        "runtime": _RUNTIMES.get(model.format or "", ""),
        "type": model.manifest.model_type if model.manifest else "",
        "precisions": sorted(model.precisions),
        "status": model.status,
        "partial": sorted(model.partial),
        "reason": model.reason,
        "location": str(model.folder),
    }


def _table(models: list["StoredModel"], everything: bool, verbose: bool) -> str:
    head = ["NAME", "SIZE"]
    head += ["RUNTIME", "TYPE"] if verbose else []
    head += ["PRECISIONS"]
    head += ["STATUS"] if everything else []
    rows = [tuple(head)]
    for model in models:
        facts = _facts(model)
        precisions = [p for p in facts["precisions"] if verbose or p != "N/A"]
        row = [model.name, size_text(model.size) if model.size else "—"]
        row += [facts["runtime"], facts["type"]] if verbose else []
        row += [",".join(precisions)]
        if everything:
            row += [f"{model.status}: {model.reason}" if model.reason else model.status]
        rows.append(tuple(row))
    return table(rows)


def _csv(models: list["StoredModel"], everything: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["name", "size", "runtime", "type", "precisions"]
    columns += ["status", "reason"] if everything else []
    writer.writerow(columns)
    for model in models:
        facts = _facts(model)
        facts["precisions"] = ",".join(facts["precisions"])
        writer.writerow(facts[column] for column in columns)
    return text.getvalue().rstrip("\n")
