"""`geniex config get|set|unset|list`: the settings that last."""

import os
from typing import Annotated

import typer

from geniex.best import PREFIX
from geniex.cli.options import Command, Group, Json, data_dir_of, is_offline, settings_of
from geniex.cli.output import Output
from geniex.config import Settings
from geniex.config_file import ConfigFile, find_data_dir
from geniex.keys import COMPUTE_UNITS, KEYS, key_of, parse_compute

KEY_HELP = "\n\n\b\nKeys:\n" + "\n".join(f"  {key.name:<14}{key.help}" for key in KEYS.values())

app = typer.Typer(cls=Group, help=f"Show and change the settings that last.{KEY_HELP}")
KeyName = Annotated[str, typer.Argument(metavar="KEY", autocompletion=lambda: list(KEYS))]


def _keys_set() -> list[str]:
    return list(ConfigFile(find_data_dir(None, os.environ)).read())


SetKey = Annotated[str, typer.Argument(metavar="KEY", autocompletion=_keys_set)]


@app.command("get", cls=Command)
def get(ctx: typer.Context, key: KeyName, as_json: Json = False) -> None:
    """Show one setting as it is in force.

    What is not set has no value: geniex chooses by itself. A chipset that is not set is looked for.
    """
    best = key.startswith(PREFIX)
    if not best:
        key_of(key)
    settings = settings_of(ctx)
    value = next((b.text() for b in settings.best if b.key == key), None) if best else None
    value = getattr(settings, key, value)
    if key == "chipset" and value is None:
        from geniex.chipset import chipset_of

        found = chipset_of(settings)
        value = found.name if found is not None else None
    output = Output()
    if as_json:
        output.json(value)
    elif value is not None:
        output.data(str(value))
    else:
        output.note(f"`{key}` is not set, geniex chooses")


# `config set ngl -1`: what begins with a dash may be the value
@app.command("set", cls=Command, context_settings={"ignore_unknown_options": True})
def set_key(
    ctx: typer.Context, key: KeyName, value: Annotated[str, typer.Argument(metavar="VALUE")]
) -> None:
    """Set one setting; an empty value clears it."""
    output = Output()
    _require_known(key, value, ctx)
    if key == "chipset" and value.strip() and value.isprintable():
        from geniex.chipset import settle_chipset

        value, note = settle_chipset(value, data_dir_of(ctx), offline=is_offline(ctx))
        if note is not None:
            output.warn(note)
    file = ConfigFile(data_dir_of(ctx))
    aside = file.set(key, value)
    if aside is not None:
        output.warn(f"the damaged settings are kept as `{aside}`")
    output.data(f"{key} = {file.read().get(key, '')}".rstrip())


@app.command("unset", cls=Command)
def unset(ctx: typer.Context, key: SetKey) -> None:
    """Take one setting out: geniex chooses again. `best.MODEL` is what a bench has saved."""
    ConfigFile(data_dir_of(ctx)).unset(key)
    Output().note(f"`{key}` is not set any more")


@app.command("list", cls=Command)
def list_keys(ctx: typer.Context, as_json: Json = False) -> None:
    """Show what is set."""
    entries = ConfigFile(data_dir_of(ctx)).read()
    if as_json:
        Output().json(entries)
        return
    for key, value in entries.items():
        Output().data(f"{key}: {value}")


def _require_known(key: str, value: str, ctx: typer.Context) -> None:
    """Refuse the names of models and devices that do not exist, before they are kept.

    A model need not be here, and a whole name may be of any hub. Raises the errors of the names.
    """
    if key == "model" and value:
        from geniex_catalogue import names
        from geniex_catalogue.entries import catalogue

        if names.local_path(value) is None:
            names.parse(value, catalogue().aliases)
    if key == "compute" and value and parse_compute(value) not in COMPUTE_UNITS:
        from geniex.cli.terminal import in_background
        from geniex.session import look_at_hardware
        from geniex_runtimes import compute

        settings = Settings(data_dir_of(ctx))
        machine = in_background(lambda: look_at_hardware(settings))
        compute.choice(parse_compute(value), machine.devices)
