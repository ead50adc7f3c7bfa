"""What `geniex serve` keeps of requests for its operator, beside the log: prompts, traces."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from geniex.server.prompt_log import PromptLog
    from geniex.server.tracing import Tracing

LogPrompts = Annotated[
    Path | None,
    typer.Option(
        "--log-prompts",
        metavar="DIR",
        help="Keep what is asked and answered in files there: private text [default: nowhere]",
    ),
]


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of requests."""

    prompts: "PromptLog | None"
    tracing: "Tracing | None"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should see at the start."""
        if self.prompts is None:
            return ()
        return (f"Prompts and answers are kept in {self.prompts.folder}",)


@contextmanager
def watched(log_prompts: Path | None) -> Iterator[Watch]:
    """Who is told, until the end of the server. Raises UsageError for a folder that cannot be."""
    from geniex.server.prompt_log import open_prompt_log
    from geniex.server.tracing import tracing_from

    prompts = open_prompt_log(log_prompts) if log_prompts is not None else None
    tracing = tracing_from(os.environ)
    try:
        yield Watch(prompts, tracing)
    finally:
        for one in (prompts, tracing):
            if one is not None:
                one.close()
