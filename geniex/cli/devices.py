"""`geniex devices`: what can compute here, and what was looked for."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from geniex.cli.options import Json, settings_of
from geniex.cli.output import Output, table
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex_runtimes.contract import HardwareProfile


def devices(ctx: typer.Context, as_json: Json = False) -> None:
    """Show what this machine can compute on.

    Each probe says what it found, or why it found nothing.
    """
    settings = settings_of(ctx)
    from geniex.cli.terminal import in_background
    from geniex.session import look_at_hardware

    output = Output()
    with output.status("looking at the hardware..."):
        machine = in_background(lambda: look_at_hardware(settings))
    if as_json:
        output.json(machine_json(machine))
        return
    rows = [("DEVICE", "UNIT", "RUNTIME", "MEMORY", "DESCRIPTION")]
    for device in machine.devices:
        memory = size_text(device.memory_total) if device.memory_total else "—"
        rows.append((device.name, device.unit, device.runtime, memory, device.description))
    output.data(table(rows))
    output.data("")
    output.data(probes_table(machine))


def machine_json(machine: "HardwareProfile") -> dict[str, Any]:
    """The machine as JSON; memory in bytes."""
    return {**asdict(machine), "cpu_features": sorted(machine.cpu_features)}


def probes_table(machine: "HardwareProfile") -> str:
    """Each probe with what it found, or why it found nothing."""
    rows = [("PROBE", "FOUND")]
    for probe in machine.probes:
        parts = [probe.found or "nothing", *([f"({probe.reason})"] if probe.reason else [])]
        rows.append((probe.probe, " ".join(parts)))
    return table(rows)
