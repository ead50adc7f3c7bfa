"""`geniex ps`: what a running server has in memory."""

from collections.abc import Mapping
from typing import Any

import typer

from geniex.cli import connecting
from geniex.cli import options as shared
from geniex.cli.output import Output, table
from geniex_catalogue.sizes import size_text

_HEAD = ("NAME", "SIZE", "RUNTIME", "DEVICE", "CONTEXT", "SLOTS", "SPECULATION", "UNTIL")


def ps(
    ctx: typer.Context,
    host: connecting.Host = None,
    api_key: connecting.ApiKey = None,
    as_json: shared.Json = False,
) -> None:
    """List what a running `geniex serve` has in memory.

    SIZE is an estimate, weights that are shared counted with each; SLOTS are those in use and all.
    """
    settings = shared.settings_of(ctx, host=host)
    output = Output()
    with connecting.connect(settings, api_key) as server:
        residents = server.ps()
    if as_json:
        output.json(residents)
        return
    output.data(table([_HEAD, *map(_row, residents)]))
    if not residents:
        output.note("\nnothing is loaded")


def _row(resident: Mapping[str, Any]) -> tuple[str, ...]:
    devices = ",".join(map(str, resident.get("devices") or ()))
    size = resident.get("bytes")
    waiting = resident.get("waiting") or 0
    slots = f"{resident.get('busy', 0)}/{resident.get('slots', 0)}"
    return (
        str(resident.get("id", "")),
        size_text(size) if isinstance(size, int) else "—",
        str(resident.get("runtime", "")),
        devices or str(resident.get("compute", "")),
        str(resident.get("context_length", "")),
        f"{slots} (+{waiting})" if waiting else slots,
        ",".join(map(str, resident.get("speculation") or ())) or "—",
        _until(resident),
    )


def _until(resident: Mapping[str, Any]) -> str:
    """How long it stays: while it is busy, for ever, or so many seconds."""
    if resident.get("loading"):
        return "loading"
    if resident.get("crashed"):
        return "crashed"
    if resident.get("pinned"):
        return "pinned"
    if resident.get("busy") or resident.get("waiting"):
        return "busy"
    seconds = resident.get("expires_in")
    if not isinstance(seconds, int | float):
        return "for ever"
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
