"""`geniex hub list` and `geniex hub export`: the models of Qualcomm AI Hub."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geniex.cli.options import Command, Group, Json, Quiet, settings_of
from geniex.cli.output import Output, has_colour, one_line, table
from geniex_catalogue.errors import ChipsetError, HubError, TransferError, UsageError

if TYPE_CHECKING:
    from geniex.config import Settings
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

    with output.asking("asking the AI Hub..."):
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


@app.command("export", cls=Command)
def export_model(
    ctx: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Its ONNX graphs and the files of its bundle")
    ],
    chipset: Annotated[
        str | None, typer.Option("--chipset", help="What to compile for [default: this machine]")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", help="The bundle's folder [default: FOLDER-CHIPSET, here]"),
    ] = None,
    compile_options: Annotated[
        str, typer.Option("--compile-options", help="Further options of the AI Hub's compiler")
    ] = "",
    link_options: Annotated[
        str, typer.Option("--link-options", help="Further options of the AI Hub's linker")
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Compile a model of your own on the AI Hub, which takes an account there.

    The graphs are uploaded, compiled, linked and downloaded as a bundle. Stopped, the same command
    goes on where it was; what runs on the AI Hub goes on meanwhile.
    """
    settings = settings_of(ctx)
    output = Output(quiet=quiet)
    from geniex_catalogue.hubs.export import ExportWish, export
    from geniex_catalogue.hubs.export_source import read_source
    from geniex_catalogue.hubs.workbench import connect
    from geniex_catalogue.offline import require_network

    folder = Path(model).expanduser()
    if not folder.exists():
        raise _not_a_folder(model, settings)
    source = read_source(folder)
    require_network("a model cannot be exported here", settings.offline, instead="")
    known = _chipset(chipset, settings)
    target = target or Path(f"{folder.resolve().name}-{known.short}")
    try:
        made = export(
            source,
            known,
            target,
            connect(progress=not quiet and has_colour(sys.stderr)),
            settings.data_dir,
            ExportWish(compile_options, link_options),
            lambda text: output.note(one_line(text)),
        )
    except KeyboardInterrupt:
        output.note("stopped; what runs on the AI Hub goes on, the same command takes it up")
        raise
    output.data(str(made))
    output.note(f"`geniex pull local/{target.name} --local-path {made}` takes it into the store")


def _chipset(text: str | None, settings: "Settings") -> "KnownChipset":
    """The chipset to compile for. Raises ChipsetError where none is named or found."""
    from geniex.chipset import machine_of
    from geniex_catalogue.hubs.aihub import AIHub
    from geniex_catalogue.hubs.aihub_choice import find_host
    from geniex_catalogue.hubs.contract import Machine
    from geniex_runtimes.hardware.chipset import HTP_ARCH, named

    known = named(text) if text else None
    machine = Machine(known.name, known.htp_arch) if known else machine_of(settings)
    if machine.chipset is None:
        raise ChipsetError(
            "no chipset was found on this machine", hint="name one: `--chipset CHIPSET`"
        )
    try:
        return find_host(AIHub(settings.data_dir).release().platform(), machine)
    except (HubError, TransferError):
        if machine.chipset not in HTP_ARCH:
            raise
        from geniex_catalogue.hubs.chipsets import KnownChipset

        return KnownChipset(machine.chipset, htp_arch=machine.htp_arch)


def _not_a_folder(text: str, settings: "Settings") -> UsageError:
    """The error for what is no folder; for a name of the AI Hub, who makes its graphs."""
    from geniex_catalogue import names
    from geniex_catalogue.hubs.aihub import AIHub

    org, _, rest = text.rpartition("/")
    name = rest.partition(":")[0]
    is_theirs = org.lower() in ("ai-hub-models", names.AI_HUB_ORG)
    missing = f"folder `{text}` does not exist"
    try:
        index = AIHub(settings.data_dir).release(offline=settings.offline).index()
    except (HubError, TransferError):
        if not is_theirs:
            return UsageError(
                f"{missing}, and the AI Hub cannot be asked whether it has that model"
            )
        # how the AI Hub makes an id of a name
        return _made_elsewhere(missing, re.sub(r"[^a-z0-9]+", "_", name.lower()))
    found = next((m for m in index.models if name in (m.name, m.id)), None)
    if found is None:
        return UsageError(f"{missing}, and it is no model of the AI Hub")
    return _made_elsewhere(f"`{found.name}` is a name, not a folder", found.id)


def _made_elsewhere(what: str, model_id: str) -> UsageError:
    extra, module = model_id.replace("_", "-"), f"qai_hub_models.models.{model_id}.export"
    return UsageError(
        f"{what}: the graphs of a model of the AI Hub come with Qualcomm's package "
        "`qai-hub-models`, which compiles them too",
        hint=f"`pip install 'qai-hub-models[{extra}]'`, then `python -m {module} --chipset "
        f"CHIPSET` makes a bundle; `geniex pull local/{model_id} --local-path BUNDLE` takes it "
        "into the store. `geniex hub export FOLDER` is for graphs of your own",
    )
