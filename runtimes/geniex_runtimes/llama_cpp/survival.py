"""What may kill the process is tried in a child first, and the outcome is remembered."""

import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from geniex_catalogue import durable
from geniex_catalogue.regular import read_regular
from geniex_runtimes import children

log = logging.getLogger("geniex.llama_cpp")
_MAX_BYTES = 1 << 20
# an assertion of ggml with its place, or an exception that nobody caught
_WORDS = re.compile(r"(?:[\w.-]+:\d+: )?GGML_ASSERT\(.*|(?<=what\(\):  ).*")
_MOST_WORDS = 200
# how a child ends that somebody stopped: Ctrl-C and what else ends a whole group, on Windows too
_STOPPED = (
    *(f" was killed by {name}" for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM")),
    " ended with code 0xc000013a",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test found; `reason` tells why it failed."""

    passed: bool
    reason: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """A file of outcomes by key: the newest `kept` of them, under `title`."""

    path: Path
    title: str
    kept: int

    def read(self) -> dict[str, Outcome]:
        """All outcomes; none, with a warning, where the file is damaged."""
        try:
            outcomes = json.loads(read_regular(self.path, _MAX_BYTES))[self.title]
            return {key: Outcome(**value) for key, value in outcomes.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            log.warning("%s is not readable, testing again: %s", self.path, exc)
            return {}

    def add(self, key: str, outcome: Outcome) -> str | None:
        """Write an outcome besides what is there, in one step; a text when that failed."""
        outcomes = {key: outcome, **{k: o for k, o in self.read().items() if k != key}}
        kept = dict(list(outcomes.items())[: self.kept])
        text = json.dumps({self.title: {k: asdict(o) for k, o in kept.items()}}, indent=2)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            durable.write(self.path, f"{text}\n".encode())
        except OSError as exc:
            return f"not remembered: {exc}"
        return None


def stopped(outcome: Outcome) -> bool:
    """Whether somebody ended the child, as Ctrl-C does: that says nothing about what it tried."""
    return not outcome.passed and (outcome.reason or "").endswith(_STOPPED)


def disturbed(outcome: Outcome, timeout: float) -> bool:
    """Whether a failure may be of the machine: too slow, or ended from outside."""
    killed = (outcome.reason or "").endswith(" was killed by SIGKILL") or stopped(outcome)
    return not outcome.passed and (killed or outcome.seconds >= timeout)


def run(command: Sequence[str], timeout: float, what: str = "the test") -> tuple[Outcome, bool]:
    """Run a child for at most `timeout` seconds; reasons call it `what`.

    The second value is False for a failure that Python reports (a missing module, a bad file): the
    child did not start, or ended with 1 and its last line is the reason.
    """
    started = time.monotonic()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # a debugger that ggml calls when it aborts takes seconds
        "GGML_NO_BACKTRACE": "1",
    }
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
        return Outcome(False, f"{what} did not start: {exc}"), False
    seconds = round(time.monotonic() - started, 2)
    if done.returncode == 0:
        return Outcome(True, None, seconds), True
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == 1:
        return Outcome(False, last, seconds), False
    how = f"{what} {children.death(done.returncode)}{_last_words(done.stderr)}"
    return Outcome(False, how, seconds), True


def _last_words(stderr: str) -> str:
    """What native code said of its end, in brackets; empty where it said nothing."""
    found = _WORDS.search(stderr)
    if found is None:
        return ""
    # it may hold text of the file
    words = "".join(char if char.isprintable() else "\ufffd" for char in found[0])
    return f" ({words[:_MOST_WORDS]})"


def package_folder() -> Path | None:
    """The folder of llama_cpp, without importing it; None where it is not installed."""
    from importlib.util import find_spec

    spec = find_spec("llama_cpp")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def build_key(package: Path, *more: str) -> str:
    """Names a build and what it is tried with: version, and size and time of each library."""
    parts = [*more, _version(package)]
    for library in sorted((package / "lib").glob("*")):
        if library.is_file():
            facts = library.stat()
            parts.append(f"{library.name} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _version(package: Path) -> str:
    from importlib.metadata import distributions

    for distribution in distributions(name="llama-cpp-python", path=[str(package.parent)]):
        return distribution.version
    return "unknown version"
