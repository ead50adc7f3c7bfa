"""`geniex config get|set|list`: the settings that last."""

from typing import Annotated

import typer

from geniex.cli.options import Command, Group, Json, data_dir_of, settings_of
from geniex.cli.output import Output
from geniex.config import KEYS, ConfigFile, key_of

KEY_HELP = "\n\n\b\nKeys:\n" + "\n".join(f"  {key.name:<9}{key.help}" for key in KEYS.values())

app = typer.Typer(cls=Group, help=f"Show and change the settings that last.{KEY_HELP}")
KeyName = Annotated[str, typer.Argument(metavar="KEY", autocompletion=lambda: list(KEYS))]


@app.command("get", cls=Command)
def get(ctx: typer.Context, key: KeyName) -> None:
    """Show one setting as it is in force.

    `unset` is what geniex chooses by itself.
    """
    key_of(key)
    value = getattr(settings_of(ctx), key)
    Output().data("unset" if value is None else str(value))


# `config set ngl -1`: what begins with a dash may be the value
@app.command("set", cls=Command, context_settings={"ignore_unknown_options": True})
def set_key(
    ctx: typer.Context, key: KeyName, value: Annotated[str, typer.Argument(metavar="VALUE")]
) -> None:
    """Set one setting; an empty value clears it."""
    file = ConfigFile(data_dir_of(ctx))
    aside = file.set(key, value)
    output = Output()
    if aside is not None:
        output.warn(f"the damaged settings are kept as `{aside}`")
    output.data(f"{key} = {file.read().get(key, '')}".rstrip())


@app.command("list", cls=Command)
def list_keys(ctx: typer.Context, as_json: Json = False) -> None:
    """Show what is set."""
    entries = ConfigFile(data_dir_of(ctx)).read()
    if as_json:
        Output().json(entries)
        return
    for key, value in entries.items():
        Output().data(f"{key}: {value}")
