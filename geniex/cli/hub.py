"""`geniex hub list` and `geniex hub export`: the models of Qualcomm AI Hub."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli.options import Command, Group, Json, settings_of
from geniex.cli.output import Output, one_line, table

if TYPE_CHECKING:
    from geniex_catalogue.hubs.aihub_index import HubModel
    from geniex_catalogue.hubs.chipsets import KnownChipset, Platform

app = typer.Typer(cls=Group, help="The models of Qualcomm AI Hub, compiled for Snapdragon NPUs.")


@app.command("list", cls=Command)
def list_hub(
    ctx: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Models for every chipset, and which those are")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the models that can be pulled for this machine's chipset.

    What it is: `geniex config get chipset`, else what the machine says of itself.
    """
    settings = settings_of(ctx)
    output = Output()
    from geniex.chipset import machine_of
    from geniex_catalogue.hubs.aihub import AIHub
    from geniex_catalogue.hubs.aihub_choice import find_host, for_chipset, listed

    with output.status("asking the AI Hub..."):
        release = AIHub(settings.data_dir).release(offline=settings.offline)
        index, platform = release.index(), release.platform()
    host = None if everything else find_host(platform, machine_of(settings))
    models = listed(index) if host is None else for_chipset(index, platform, host)
    for note in release.notes:
        output.note(one_line(note))
    if as_json:
        output.json([_facts(model, platform) for model in models])
        return
    if host is None:
        output.note("Qualcomm AI Hub models that geniex can run:")
    else:
        output.note(f"Qualcomm AI Hub models for {host.title} (use --all to see every model):")
    output.note("")
    output.data(_table(models, platform, host))


def _facts(model: "HubModel", platform: "Platform") -> dict[str, Any]:
    from geniex_catalogue.hubs.aihub_choice import typed_name

    return {
        "name": typed_name(model),
        "id": model.id,
        "type": model.type,
        "chipsets": list(model.chipsets),
        "devices": list(platform.titles(model.chipsets)),
        "export": not model.assets_url,
    }


def _table(
    models: "tuple[HubModel, ...]", platform: "Platform", host: "KnownChipset | None"
) -> str:
    from geniex_catalogue.hubs.aihub_choice import typed_name

    head = ("NAME", "TYPE", "CHIPSETS") if host is None else ("NAME", "TYPE")
    rows: list[tuple[str, ...]] = [head]
    for model in models:
        kind = model.type if model.assets_url else f"{model.type}, to export"
        row: tuple[str, ...] = (one_line(typed_name(model)), kind)
        if host is None:
            found = ((name, platform.find(name)) for name in model.chipsets)
            short = sorted(chip.short if chip else name for name, chip in found)
            row = (*row, one_line(", ".join(short)))
        rows.append(row)
    return table(rows)
