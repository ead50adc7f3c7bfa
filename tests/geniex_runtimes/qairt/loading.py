"""Bundles through the runtime's public door, and what their answers say."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.answer import Answer
from geniex_runtimes.contract import Done, Event, GenerationRequest, PromptPiece, TextEvent
from geniex_runtimes.options import LoadOptions, SamplingOptions
from geniex_runtimes.qairt.loaded import QairtModel
from geniex_runtimes.qairt.runtime import QairtRuntime

GREEDY = SamplingOptions(temperature=0)


def resolved(folder: Path) -> ResolvedModel:
    """A bundle's folder as the resolver gives it."""
    files = tuple(sorted(folder.iterdir()))
    return ResolvedModel(str(folder), None, "qairt", folder, files, None, 0)


def load(folder: Path, **options: Any) -> QairtModel:
    """A bundle, loaded."""
    return QairtRuntime().load(resolved(folder), LoadOptions(compute="npu", **options))


def ask(
    model: QairtModel,
    prompt: str | Sequence[int],
    sampling: SamplingOptions = GREEDY,
    **fields: Any,
) -> Answer:
    """An answer that has begun."""
    given = [PromptPiece(prompt)] if isinstance(prompt, str) else prompt
    return model.generate(GenerationRequest(given, sampling, **fields))


def split(events: Iterable[Event]) -> tuple[str, Done]:
    """An answer's text and its end."""
    found = list(events)
    assert isinstance(found[-1], Done)
    return "".join(event.text for event in found if isinstance(event, TextEvent)), found[-1]


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact, within the patience of a busy machine."""
    ends = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process is no more, not even as a zombie."""
    return not psutil.pid_exists(pid)


def kill_worker(model: QairtModel) -> int:
    """End a model's worker as `kill -9` does, and wait until it is dead; which one it was."""
    pid = model.worker_pid
    assert pid is not None
    psutil.Process(pid).kill()
    until(lambda: model.worker_pid != pid, "it does not die")
    return pid
