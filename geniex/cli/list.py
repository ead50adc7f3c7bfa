"""`geniex list`: the models on disk."""

import csv
import io
from enum import StrEnum
from typing import Annotated, Any

import typer

from geniex.cli.model_json import builtin_json, model_json, unfinished_text
from geniex.cli.options import Json, settings_of
from geniex.cli.output import Output, one_line, table
from geniex_catalogue.sizes import size_text


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
    """List the models that are here, the built-in ones last."""
    from geniex_catalogue.store import Store

    settings = settings_of(ctx)
    output = Output()
    store = Store(settings.data_dir)
    found = store.list()
    models = [model for model in found if everything or model.status == "ready"]
    rows = [model_json(model) for model in models] + builtin_json()
    if as_json or form is Format.JSON:
        output.json(rows)
        return
    if form is Format.CSV:
        output.data(_csv(rows, everything))
        return
    unfinished = {model.name: unfinished_text(model) for model in models} if everything else {}
    output.data(f"Models cached in {store.models}\n")
    output.data(_table(rows, unfinished, everything, settings.verbose))
    if not found:
        output.note("\nnone yet but the built-in ones; `geniex pull org/repo` fetches one")
    elif len(models) < len(found):
        output.note(f"\n{len(found) - len(models)} not usable, see `geniex list --all`")


def _table(
    models: list[dict[str, Any]], unfinished: dict[str, str], everything: bool, verbose: bool
) -> str:
    head = ["NAME", "SIZE"]
    head += ["RUNTIME", "TYPE"] if verbose else []
    head += ["PRECISIONS"]
    head += ["STATUS"] if everything else []
    rows = [tuple(head)]
    for facts in models:
        precisions = [p for p in facts["precisions"] if verbose or p != "N/A"]
        builtin = " (built in)" if facts["builtin"] else ""
        row = [facts["name"], size_text(facts["size"]) if facts["size"] else "—"]
        row += [facts["runtime"], facts["type"]] if verbose else []
        row += [",".join(precisions) + builtin]
        if everything:
            told = [facts["status"]]
            told += [f": {facts['reason']}"] if facts["reason"] else []
            told += [f" ({text})"] if (text := unfinished.get(facts["name"])) else []
            row += [one_line("".join(told))]
        rows.append(tuple(row))
    return table(rows)


def _csv(models: list[dict[str, Any]], everything: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["name", "size", "runtime", "type", "precisions"]
    columns += ["status", "reason"] if everything else []
    writer.writerow(columns)
    for facts in models:
        row = {**facts, "precisions": ",".join(facts["precisions"])}
        writer.writerow(row[column] for column in columns)
    return text.getvalue().rstrip("\n")
