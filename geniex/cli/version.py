"""`geniex version`: ours, and those of the runtimes."""

import typer

from geniex import __version__
from geniex.cli.options import Json, settings_of
from geniex.cli.output import Output


def version(ctx: typer.Context, as_json: Json = False) -> None:
    """Show the versions of geniex and its runtimes."""
    settings_of(ctx)
    show(Output(), as_json=as_json)


def show(output: Output, *, as_json: bool = False) -> None:
    """Write the versions; a runtime that is not there says why instead."""
    from geniex_runtimes import registry

    found = registry.availability()
    if as_json:
        runtimes = {name: runtime.version for name, runtime in found.items()}
        output.json({"geniex": __version__, "runtimes": runtimes})
        return
    output.data(f"{'GenieX CLI Version:':<23}{__version__}")
    for name, label in (
        ("qairt", "QAIRT Runtime Version:"),
        ("llama_cpp", "LlamaCPP Runtime Hash:"),
    ):
        runtime = found.get(name)
        text = (runtime.version or runtime.reason) if runtime else None
        output.data(f"{label:<23}{text or 'not installed'}")
