"""Does this build of llama.cpp survive its own repacked weights here? Asked once, in a child.

Some virtual machines advertise AMX and then kill the process that uses it. llama.cpp uses it when
weights are in "extra buffers", so a child process loads a small quantised model that way and
decodes a few batches. If it dies, extra buffers stay off for this build: slower, but alive.
"""

import ctypes
import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from geniex_runtimes.contract import ProbeResult

log = logging.getLogger("geniex.llama_cpp")

FILE = "selftest.json"
# seconds; a machine that swaps needs a few
TIMEOUT = 60.0
PROBE = "extra buffers"
# how many builds are remembered
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the test of one build found; `reason` tells why it failed."""

    passed: bool
    reason: str | None = None
    seconds: float = 0.0


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
    package = package or _package()
    if package is None:
        return False, ProbeResult(PROBE, None, "llama-cpp-python is not installed")
    build = build_key(package, cpu)
    path = data_dir / FILE
    known = _remembered(path)
    if build in known:
        return _answer(known[build], "tested before")
    command = command or _command()
    if command is None:
        return False, ProbeResult(PROBE, None, "off: the built-in model to test with is missing")
    outcome, final = run(command, timeout)
    note = "tested now"
    if final:
        note = _remember(path, {build: outcome, **known}) or note
    return _answer(outcome, note)


def build_key(package: Path, cpu: str) -> str:
    """Names a build on a processor: its version, and size and time of each shared library."""
    parts = [cpu, _version(package)]
    for library in sorted((package / "lib").glob("*")):
        if library.is_file():
            facts = library.stat()
            parts.append(f"{library.name} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def run(command: Sequence[str], timeout: float = TIMEOUT) -> tuple[Outcome, bool]:
    """Run the child; the second value is False for a failure that says nothing about the build."""
    started = time.monotonic()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Outcome(False, f"no answer within {timeout:g} s", timeout), True
    except OSError as exc:
        return Outcome(False, f"the test did not start: {exc}"), False
    seconds = round(time.monotonic() - started, 2)
    if done.returncode == 0:
        return Outcome(True, None, seconds), True
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    # Python's own failure (a missing module, a bad file) ends with 1: the CPU was never tried
    if done.returncode == 1:
        return Outcome(False, f"the test did not run: {last}", seconds), False
    return Outcome(False, f"the test {_death(done.returncode)}", seconds), True


def _death(code: int) -> str:
    if code < 0:
        import signal

        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    # Windows reports an exception's number: 0xC000001D is an illegal instruction
    return f"ended with code {code:#x}" if code > 255 else f"ended with code {code}"


def _answer(outcome: Outcome, note: str) -> tuple[bool, ProbeResult]:
    if outcome.passed:
        return True, ProbeResult(PROBE, f"on: self-test passed in {outcome.seconds:g} s ({note})")
    return False, ProbeResult(PROBE, None, f"off: {outcome.reason} ({note})")


def _remembered(path: Path) -> dict[str, Outcome]:
    try:
        builds = json.loads(path.read_text(encoding="utf-8"))["builds"]
        return {key: Outcome(**value) for key, value in builds.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        log.warning("%s is not readable, testing again: %s", path, exc)
        return {}


def _remember(path: Path, builds: dict[str, Outcome]) -> str | None:
    """Write the results in one step; a text when that failed."""
    kept = dict(list(builds.items())[:_KEPT])
    text = json.dumps({"builds": {key: asdict(value) for key, value in kept.items()}}, indent=2)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as exc:
        return f"tested now, not remembered: {exc}"
    return None


def _package() -> Path | None:
    """The folder of llama_cpp, without importing it."""
    from importlib.util import find_spec

    spec = find_spec("llama_cpp")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _version(package: Path) -> str:
    from importlib.metadata import distributions

    for distribution in distributions(name="llama-cpp-python", path=[str(package.parent)]):
        return distribution.version
    return "unknown version"


def _command() -> list[str] | None:
    """The child that tests the built-in tiny model."""
    from geniex_catalogue.entries import catalogue
    from geniex_catalogue.names import ModelRef

    builtin = catalogue().builtin_file(ModelRef("geniex", "tiny-chat", "Q8_0"))
    if builtin is None:
        return None
    # -P: a file in the user's folder must not stand in for a module
    return [sys.executable, "-P", "-m", "geniex_runtimes.llama_cpp.selftest", str(builtin[1])]


def _quiet_death() -> None:
    """No core file, and no window that waits for a click, when this process is killed."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


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
    _quiet_death()
    decode_with_extra_buffers(Path(sys.argv[1]))
