"""Completion of commands, flags and models by the shell."""

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script, install

from geniex.cli.output import Output

_PROGRAM = "geniex"
_VARIABLE = "_GENIEX_COMPLETE"


class Shell(StrEnum):
    """The shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


def prepare() -> None:
    """Have typer answer a shell that asks for completions; nothing happens in other runs."""
    if _VARIABLE in os.environ:
        completion_init()


def _show(shell: Shell | None) -> None:
    if shell is not None:
        script = get_completion_script(
            prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell.value
        )
        Output().data(script)
        raise typer.Exit


def _install(shell: Shell | None) -> None:
    if shell is not None:
        _, path = install(shell.value, _PROGRAM, _VARIABLE)
        Output().tell(f"completion is in {path}, from the next {shell.value} on")
        raise typer.Exit


ShowCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--show-completion", callback=_show, is_eager=True, help="Show a shell's completion script"
    ),
]
InstallCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--install-completion", callback=_install, is_eager=True, help="Install it for a shell"
    ),
]
