"""Does this build of llama.cpp survive its own repacked weights here? Asked once, in a child.

Some virtual machines advertise AMX and then kill the process that uses it. llama.cpp uses it when
weights are in "extra buffers", so a child process loads a small quantised model that way and
decodes a few batches. If it dies, extra buffers stay off for this build: slower, but alive.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from geniex_runtimes import children
from geniex_runtimes.contract import ProbeResult
from geniex_runtimes.llama_cpp import survival
from geniex_runtimes.llama_cpp.survival import Outcome, Record

FILE = "selftest.json"
# seconds; a machine that swaps needs a few
TIMEOUT = 60.0
PROBE = "extra buffers"
# how many builds are remembered
_KEPT = 8


def probe(
    data_dir: Path,
    cpu: str,
    *,
    package: Path | None = None,
    command: Sequence[str] | None = None,
    timeout: float = TIMEOUT,
) -> tuple[bool, ProbeResult]:
    """Whether extra buffers work here, and how that is known; runs the test at most once a build.

    `cpu` is the processor's name; `package` (the folder of llama_cpp) and `command` (the child)
    are found when not given. `timeout` is seconds. Never raises.
    """
    package = package or survival.package_folder()
    if package is None:
        return False, ProbeResult(PROBE, None, "llama-cpp-python is not installed")
    build = survival.build_key(package, cpu)
    record = Record(data_dir / FILE, "builds", _KEPT)
    known = record.read().get(build)
    if known is not None:
        return _answer(known, "tested before")
    command = command or _command()
    if command is None:
        return False, ProbeResult(PROBE, None, "off: the built-in model to test with is missing")
    outcome, final = survival.run(command, timeout)
    if not final or survival.stopped(outcome):
        return _answer(
            replace(outcome, reason=f"the test did not run: {outcome.reason}"), "tested now"
        )
    problem = record.add(build, outcome)
    return _answer(outcome, f"tested now, {problem}" if problem else "tested now")


def _answer(outcome: Outcome, note: str) -> tuple[bool, ProbeResult]:
    if outcome.passed:
        return True, ProbeResult(PROBE, f"on: self-test passed in {outcome.seconds:g} s ({note})")
    return False, ProbeResult(PROBE, None, f"off: {outcome.reason} ({note})")


def _command() -> list[str] | None:
    """The child that tests the built-in tiny model."""
    from geniex_catalogue.entries import catalogue
    from geniex_catalogue.names import ModelRef

    builtin = catalogue().builtin_file(ModelRef("geniex", "tiny-chat", "Q8_0"))
    if builtin is None:
        return None
    return children.command("geniex_runtimes.llama_cpp.selftest", str(builtin[1]))


def decode_with_extra_buffers(model_path: Path, batches: Sequence[int] = (1, 32)) -> None:
    """Load a model with extra buffers on the CPU and decode batches of so many rows.

    Raises RuntimeError when llama.cpp refuses; dies where the instructions do not work.
    """
    from llama_cpp import llama_cpp as api

    api.llama_backend_init()
    model_params = api.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model_params.use_extra_bufts = True
    model = api.llama_model_load_from_file(str(model_path).encode(), model_params)
    if not model:
        raise RuntimeError(f"the model `{model_path}` does not load")
    context_params = api.llama_context_default_params()
    context_params.n_ctx = 128
    context_params.n_batch = context_params.n_ubatch = max(batches)
    context_params.n_threads = context_params.n_threads_batch = min(2, os.cpu_count() or 1)
    context = api.llama_init_from_model(model, context_params)
    if not context:
        raise RuntimeError("the context could not be made")
    for rows in batches:
        tokens = (api.llama_token * rows)(*range(rows))
        code = api.llama_decode(context, api.llama_batch_get_one(tokens, rows))
        if code != 0:
            raise RuntimeError(f"a batch of {rows} rows ended with {code}")
    api.llama_free(context)
    api.llama_model_free(model)


if __name__ == "__main__":
    children.die_quietly()
    decode_with_extra_buffers(Path(sys.argv[1]))
