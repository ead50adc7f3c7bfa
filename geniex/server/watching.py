"""Who is told of requests beside the log: files of prompts, a collector of traces, a report."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from geniex.bug_report.last_lines import drop_last_lines, keep_last_lines
from geniex.server.prompt_log import PromptLog, open_prompt_log
from geniex.server.tracing import Tracing, tracing_from


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of requests."""

    prompts: PromptLog | None
    tracing: Tracing | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should see at the start."""
        if self.prompts is None:
            return ()
        return (f"Prompts and answers are kept in {self.prompts.folder}",)


@contextmanager
def watched(log_prompts: Path | None, data_dir: Path) -> Iterator[Watch]:
    """Who is told, until the end of the server. Raises UsageError for a folder that cannot be.

    The last warnings are kept in the data folder, for `geniex doctor --report`.
    """
    prompts = open_prompt_log(log_prompts) if log_prompts is not None else None
    kept = keep_last_lines(data_dir)
    tracing = tracing_from(os.environ)
    try:
        yield Watch(prompts, tracing)
    finally:
        drop_last_lines(kept)
        for one in (prompts, tracing):
            if one is not None:
                one.close()
