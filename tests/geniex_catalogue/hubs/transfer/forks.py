"""Pulls in processes that are killed: `python -m tests.geniex_catalogue.hubs.transfer.forks`.

Reads lines of JSON from stdin: `root` of the store, `name` to pull, and `kill_at`, the bytes on
disk at which the process gets SIGKILL (null: never). Answers each with a line: how it ended. The
children are forks of a process that has imported everything, which takes milliseconds.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

# imported here, that not each child has to
import httpx2  # noqa: F401
import huggingface_hub.hf_api  # noqa: F401

from geniex_catalogue.errors import GenieXError
from geniex_catalogue.hubs.part import ENDING, arrived
from geniex_catalogue.hubs.transfer import Fetch, Fetched, fetch
from geniex_catalogue.names import parse
from geniex_catalogue.pull import pull
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.transfer.download import QUICK

SPAN = 300_000
HASTE = replace(QUICK, stall=0.2)


def pull_in_spans(root: Path, name: str) -> None:
    """A pull whose spans are short and whose patience is."""

    def fetch_quickly(jobs: Sequence[Fetch], *_: object, **__: object) -> tuple[Fetched, ...]:
        return fetch(jobs, None, HASTE, span=SPAN)

    with (
        patch("geniex_catalogue.pull.fetch", fetch_quickly),
        patch("geniex_catalogue.hubs.huggingface.Patience", lambda: HASTE),
    ):
        pull(parse(name), Store(root))


def child(root: Path, name: str) -> int:
    """Pull, and leave the process: 0 whole, 1 an error of ours, 2 any other."""
    try:
        pull_in_spans(root, name)
    except GenieXError:
        return 1
    except BaseException as exc:
        sys.stderr.write(f"{exc!r}\n")
        return 2
    return 0


def on_disk(root: Path) -> int:
    """Bytes that have arrived, of all files."""
    return sum(map(arrived, root.rglob(f"*{ENDING}")))


def run(root: Path, name: str, kill_at: int | None) -> str:
    """One process, to its end."""
    process = os.fork()
    if process == 0:
        os._exit(child(root, name))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return ("whole", "error", "wrong")[os.waitstatus_to_exitcode(status)]
        if kill_at is not None and on_disk(root) >= kill_at:
            break
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "killed" if kill_at is not None else "hangs"


def main() -> None:
    """Answer each line."""
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        ended = run(Path(asked["root"]), asked["name"], asked["kill_at"])
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
