"""A `geniex serve` in a process of its own, for what measures it."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120.0


@dataclass(frozen=True)
class GeniexServer:
    """A server that listens; `log` is the file that it writes to, `data_dir` its data folder."""

    url: str
    process: int
    log: Path
    data_dir: Path


@contextmanager
def running(
    *words: str, data_dir: Path | None = None, log: Path | None = None
) -> Iterator[GeniexServer]:
    """`geniex serve WORDS...` on a free port, with folders of its own where none are given.

    It is ended at the end. Raises RuntimeError where it does not come to listen.
    """
    with tempfile.TemporaryDirectory() as own:
        folder = data_dir or Path(own)
        log = log or Path(own) / "log"
        command = [sys.executable, "-m", "geniex", "serve", *words, "--port", "0"]
        with log.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [*command, "--data-dir", str(folder)], stderr=stderr, stdin=subprocess.DEVNULL
            )
        try:
            yield GeniexServer(_listening(process, log), process.pid, log, Path(folder))
        finally:
            process.terminate()
            process.wait()


def _listening(process: "subprocess.Popen[bytes]", log: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("Listening on "):
                return line.split()[2]
        time.sleep(0.05)
    raise RuntimeError(f"geniex does not listen: {log.read_text(encoding='utf-8')[-2000:]}")
