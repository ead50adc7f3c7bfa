"""Flags of `geniex serve` about what is kept of requests."""

from pathlib import Path
from typing import Annotated

import typer

LogPrompts = Annotated[
    Path | None,
    typer.Option(
        "--log-prompts",
        metavar="DIR",
        help="Keep what is asked and answered in files there: private text [default: nowhere]",
    ),
]
