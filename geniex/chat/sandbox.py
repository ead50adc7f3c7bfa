"""A stranger's template, rendered in a process of its own that is stopped when it misbehaves.

The process starts once per template and stays: a rendering then costs well under a millisecond.
Limits on time, memory and output hold whatever the template does, since they are kept from
outside.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from geniex_catalogue.errors import LoadError, TemplateError

_WORKER = Path(__file__).with_name("render_worker.py")
_START_SECONDS = 30.0  # a cold, busy machine may take this long to start Python
_LOOK_SECONDS = 0.05
_BUSY = 4  # times as long by the clock as of the CPU: other programs may have it


@dataclass(frozen=True, slots=True)
class Limits:
    """What a template may take: seconds of the CPU, bytes of memory, characters of output.

    `seconds` is for compiling it, and for all attempts at one prompt together. `characters` comes
    on top of four times what went in.
    """

    seconds: float = 3.0
    memory: int = 512 * 1024 * 1024
    characters: int = 4_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rendering gave: the text, or the template's refusal, or why it failed."""

    kind: Literal["text", "refused", "failed"]
    text: str


class TemplateSandbox:
    """One template in its process. Usable from any thread; renderings run one at a time."""

    def __init__(self, source: str, limits: Limits | None = None) -> None:
        self._source = source
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stop: weakref.finalize[..., TemplateSandbox] | None = None
        self._names: frozenset[str] = frozenset()

    def names(self) -> frozenset[str]:
        """The variables that the template reads.

        Raises TemplateError if it does not compile, LoadError where its process does not start.
        """
        with self._lock:
            self._started()
            return self._names

    def render(
        self, context: Mapping[str, object], hidden: Mapping[str, str], deadline: float
    ) -> Outcome:
        """Render with a JSON-like context; `hidden` maps stand-in characters to tokens.

        `deadline` is a time of `time.monotonic`.

        Raises TemplateError when a limit is passed or the template does not compile, and LoadError
        where its process does not start.
        """
        try:
            line = json.dumps(
                {
                    "context": context,
                    "hidden": hidden,
                    "seconds": self._limits.seconds * _BUSY + 1,
                    "characters": self._limits.characters,
                }
            ).encode()
        except (TypeError, ValueError, RecursionError) as exc:
            raise TemplateError(f"the messages cannot be given to a template: {exc}") from exc
        left = deadline - time.monotonic()
        with self._lock:
            # neither the turn of others nor a start of the process is the template's fault
            answer = self._ask(self._started(), line, left)
        if "text" in answer:
            return Outcome("text", answer["text"])
        if answer["error"] == "limit":
            raise TemplateError(f"the model's chat template {answer['message']}")
        return Outcome("refused" if answer["error"] == "refused" else "failed", answer["message"])

    def close(self) -> None:
        """Stop the process; the next rendering would start a new one."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        try:
            # -P: the worker's own folder must not shadow the standard library
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is the parent's to handle
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as exc:
            # neither the template nor the messages are to blame
            raise LoadError(
                f"the process for chat templates did not start: {exc.strerror or exc}",
                hint="more files or processes (`ulimit -n`, `ulimit -u`), or fewer requests, help",
            ) from exc
        self._stop = weakref.finalize(self, _stop, self._process)
        self._ask(self._process, None, _START_SECONDS)
        request = {"source": self._source, "memory": self._limits.memory}
        answer = self._ask(self._process, json.dumps(request).encode(), self._limits.seconds)
        if "error" in answer:
            self._end()
            reason = one_line(answer["message"])
            raise TemplateError(f"the model's chat template is faulty: {reason}")
        self._names = frozenset(answer["names"])
        return self._process

    def _ask(
        self, process: subprocess.Popen[bytes], line: bytes | None, seconds: float
    ) -> dict[str, Any]:
        """Send a line, if there is one, and wait for the answer; `seconds` are of the CPU."""
        assert process.stdin is not None and process.stdout is not None
        passed: list[str] = []
        try:
            with self._watched(process, seconds, passed):
                if line is not None:
                    process.stdin.write(line + b"\n")
                    process.stdin.flush()
                reply = process.stdout.readline()
        except OSError:
            reply = b""
        except BaseException:
            # interrupted: the next reply would belong to this request
            self._end()
            raise
        if passed or not reply.endswith(b"\n"):
            self._end()
            why = passed[0] if passed else "crashed the process that renders it"
            raise TemplateError(f"the model's chat template {why}")
        answer: dict[str, Any] = json.loads(reply)
        return answer

    @contextlib.contextmanager
    def _watched(
        self, process: subprocess.Popen[bytes], seconds: float, passed: list[str]
    ) -> Iterator[None]:
        """Kill the process when time or memory is up; `passed` then holds why."""
        done = threading.Event()
        used, last = _cpu_seconds(process.pid), time.monotonic() + seconds * _BUSY

        def watch() -> None:
            while not done.wait(_LOOK_SECONDS):
                if _cpu_seconds(process.pid) - used > seconds or time.monotonic() > last:
                    passed.append(f"ran longer than {self._limits.seconds:g} s")
                elif _memory(process.pid) > self._limits.memory:
                    passed.append("needed too much memory")
                if passed:
                    process.kill()
                    return

        watcher = threading.Thread(target=watch, name="template-watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop()
        self._process = self._stop = None


def one_line(text: str) -> str:
    """A template's message without line breaks and terminal controls."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in line)


def _memory(pid: int) -> int:
    """Bytes of memory that a process holds; 0 once it is gone."""
    import psutil

    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0


def _cpu_seconds(pid: int) -> float:
    """What a process has had of the CPU; 0 once it is gone."""
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # what was not yet written is of no use any more
            with contextlib.suppress(OSError):
                pipe.close()
