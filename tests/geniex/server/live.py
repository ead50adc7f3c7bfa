"""A real `geniex serve` in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0  # seconds for what must come, on a machine that does other things too


class LiveServer:
    """A server that listens; `url` has no slash at its end, `log` is what it has written."""

    def __init__(self, process: "subprocess.Popen[str]", data_dir: Path) -> None:
        self.process = process
        self.data_dir = data_dir
        self.log: list[str] = []
        self.url = ""
        self._told = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes."""
        return f"{self.url}/v1"

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            said = json.loads(line)["message"] if line.startswith("{") else line
            if said.startswith("Listening on "):
                self.url = said.split()[2]
                self._told.set()
        self._told.set()

    def await_listening(self) -> None:
        """Wait until it listens; fails with what it wrote where it does not."""
        self._told.wait(PATIENCE)
        assert self.url, "it does not listen:\n" + "\n".join(self.log)

    def await_log(self, text: str) -> None:
        """Wait until a line with that text has been written."""
        end = time.monotonic() + PATIENCE
        while not any(text in line for line in self.log):
            assert time.monotonic() < end and self.process.poll() is None, "\n".join(self.log)
            time.sleep(0.02)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the answer is the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reader.join(PATIENCE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


def start(
    *args: str,
    data_dir: Path,
    environ: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "geniex"),
) -> LiveServer:
    """Start `geniex serve --port 0 ARGS...`; `environ` is added to a clean environment.

    `program` is what Python runs.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GENIEX_", "HF_", "HUGGING_FACE_"))
    }
    paths = [str(ROOT), str(ROOT / "runtimes"), str(ROOT / "catalogue")]
    env |= {"HOME": str(data_dir), "USERPROFILE": str(data_dir)}
    env |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", **(environ or {})}
    command = [sys.executable, *program, "serve", "--data-dir", str(data_dir)]
    port = () if "--port" in args else ("--port", "0")
    process = subprocess.Popen(
        [*command, *port, *args],
        cwd=data_dir,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    return LiveServer(process, data_dir)


@contextmanager
def running(
    *args: str,
    data_dir: Path,
    environ: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "geniex"),
) -> Iterator[LiveServer]:
    """A server that listens, ended at the end."""
    server = start(*args, data_dir=data_dir, environ=environ, program=program)
    try:
        server.await_listening()
        yield server
    finally:
        server.end()
