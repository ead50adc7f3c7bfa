"""Models in workers, and workers that come to harm."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from geniex_runtimes.contract import GenerationRequest, PromptPiece
from geniex_runtimes.llama_cpp.isolated.model import IsolatedModel
from geniex_runtimes.llama_cpp.runtime import LlamaCppRuntime
from geniex_runtimes.options import LoadOptions, SamplingOptions
from tests.geniex_runtimes.llama_cpp.answers import resolved

# an answer without an end: the tokens that would end it are never drawn
ENDLESS = GenerationRequest(
    [PromptPiece("Once")],
    SamplingOptions(temperature=0, logit_bias=tuple((token, -99.0) for token in (1, 9, 16))),
)


def isolated(path: Path, **options: object) -> IsolatedModel:
    """A model, loaded in a worker."""
    settings = {"threads": 1, "context_length": 1024, "isolate": True} | options
    model = LlamaCppRuntime().load(resolved(path), LoadOptions(**settings))  # type: ignore[arg-type]
    assert isinstance(model, IsolatedModel)
    return model


def pid_of(model: IsolatedModel) -> int:
    pid = model.worker_pid
    assert pid is not None
    return pid


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact, within the patience of a busy machine."""
    ends = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process is no more, not even as a zombie."""
    return not psutil.pid_exists(pid)


def end_worker(model: IsolatedModel, signal: int) -> int:
    """Send a model's worker a signal, and wait until it is dead; which one it was."""
    pid = pid_of(model)
    os.kill(pid, signal)
    until(lambda: model.worker_pid != pid, "it does not die")
    return pid
