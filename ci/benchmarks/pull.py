"""A pull from a hub on loopback against `curl`: how fast, how much memory, and what a kill costs.

python3 ci/bench.py pull                     # 2 GB, 5 rounds, then one that is killed at 60 %
python3 ci/bench.py pull --size 500 --rounds 9
python3 ci/bench.py pull --folder /dev/shm   # without a disk

The hub is a process of its own that sends by `sendfile`. Both sides take the same file in turn, and
who is first alternates. curl only writes; geniex asks for the listing and the header, hashes, syncs
to the disk and publishes within its time.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.benchmarks.hub import COMMIT, REPO

LEAST_RATIO = 0.8
MOST_MEMORY = 200e6
KILLED_AT = 0.6
MOST_AGAIN = 0.45
NAME = "model-F32.gguf"


@dataclass(frozen=True)
class Hub:
    """The running hub, and the file that it has."""

    url: str
    size: int

    @property
    def file_url(self) -> str:
        """Where curl finds the file."""
        return f"{self.url}/{REPO}/resolve/{COMMIT}/{NAME}"

    def sent(self) -> int:
        """Bytes of the file that were sent so far."""
        with urllib.request.urlopen(f"{self.url}/sent") as answer:
            return int(answer.read())


def write_model(path: Path, size: int) -> str:
    """A GGUF of `size` bytes, nearly all of them one tensor's; its sha256."""
    architecture = _text("general.architecture") + struct.pack("<I", 8) + _text("llama")
    values = (size - 256) // 4
    tensor = _text("token_embd.weight") + struct.pack("<IQIQ", 1, values, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + architecture + tensor
    head += bytes(-len(head) % 32)
    digest, source = hashlib.sha256(), random.Random(1)
    with path.open("wb") as out:
        left = len(head) + 4 * values
        while left:
            piece = (head + source.randbytes(1 << 20))[:left] if out.tell() == 0 else b""
            piece = piece or source.randbytes(min(left, 1 << 20))
            digest.update(piece)
            out.write(piece)
            left -= len(piece)
    return digest.hexdigest()


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@contextmanager
def running(path: Path, sha256: str) -> Iterator[Hub]:
    """The hub for as long as the block."""
    command = [sys.executable, "-m", "ci.benchmarks.hub", str(path), sha256]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield Hub(process.stdout.readline().strip(), path.stat().st_size)
        finally:
            process.kill()


def start_pull(hub: Hub, folder: Path) -> "subprocess.Popen[str]":
    """Our side, started."""
    command = [sys.executable, "-m", "ci.benchmarks.puller", str(folder), f"{REPO}:F32"]
    return subprocess.Popen(
        command, env={**os.environ, "HF_ENDPOINT": hub.url}, stdout=subprocess.PIPE, text=True
    )


def by_geniex(hub: Hub, folder: Path) -> tuple[float, float]:
    """Seconds and bytes of memory of one pull. Raises RuntimeError when it fails."""
    with start_pull(hub, folder) as process:
        out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the pull ended with {process.returncode}")
    told = json.loads(out)
    return told["seconds"], told["memory"]


def by_curl(hub: Hub, folder: Path) -> float:
    """Seconds of one download by curl."""
    command = ["curl", "-sSfL", "-o", str(folder / NAME), "-w", "%{time_total}", hub.file_url]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare(hub: Hub, root: Path, rounds: int) -> list[tuple[float, float, float]]:
    """Our seconds, curl's, and our memory, one of each a round; a round before warms up."""
    results = []
    for number in range(-1, rounds):
        took, memory = {}, 0.0
        for side in ("geniex", "curl") if number % 2 else ("curl", "geniex"):
            folder = root / side
            folder.mkdir()
            if side == "geniex":
                took[side], memory = by_geniex(hub, folder)
            else:
                took[side] = by_curl(hub, folder)
            shutil.rmtree(folder)
        mine, theirs = took["geniex"], took["curl"]
        if number >= 0:
            results.append((mine, theirs, memory))
            print(
                f"  round {number + 1}: {hub.size / mine / 1e6:.0f} against "
                f"{hub.size / theirs / 1e6:.0f} MB/s, {memory / 1e6:.0f} MB of memory",
                flush=True,
            )
    return results


def killed(hub: Hub, folder: Path) -> float:
    """What share of the file is sent again after a `kill -9`, beyond the header."""
    folder.mkdir()
    begin = hub.sent()
    with start_pull(hub, folder) as process:
        while hub.sent() - begin < KILLED_AT * hub.size:
            if process.poll() is not None:
                raise RuntimeError("the pull ended before it could be killed")
            time.sleep(0.005)
        process.kill()
    at_kill = hub.sent()
    by_geniex(hub, folder)
    (path,) = folder.rglob(NAME)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    shutil.rmtree(folder)
    first, second = (at_kill - begin) / hub.size, (hub.sent() - at_kill) / hub.size
    print(f"  killed after {first:.0%}, then {second:.1%} more were sent; sha256 {digest[:16]}…")
    return second


def report(results: Sequence[tuple[float, float, float]], again: float | None) -> bool:
    """Print the verdict in one line each; whether all is as asked for."""
    ratios = [theirs / mine for mine, theirs, _ in results]
    median, memory = statistics.median(ratios), max(memory for _, _, memory in results)
    print(
        f"  speed: {median:.2f} of curl's (median of {len(ratios)}, {min(ratios):.2f} to "
        f"{max(ratios):.2f}), at least {LEAST_RATIO} is asked\n"
        f"  memory: {memory / 1e6:.0f} MB, at most {MOST_MEMORY / 1e6:.0f} MB is asked",
        flush=True,
    )
    passed = median >= LEAST_RATIO and memory <= MOST_MEMORY
    if again is not None:
        print(f"  after the kill: {again:.1%}, at most {MOST_AGAIN:.0%} is asked", flush=True)
        passed = passed and again <= MOST_AGAIN
    return passed


def main(words: Sequence[str]) -> int:
    """Run what the words ask for; 0 if all passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2000, help="MB of the file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to work (default: the temporary folder)")
    parser.add_argument("--no-kill", action="store_true", help="only the speed")
    args = parser.parse_args(words)
    if shutil.which("curl") is None:
        print("error: `curl` is not installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        root = Path(name)
        sha256 = write_model(root / NAME, args.size * 1_000_000)
        title = f"pull of {args.size} MB over loopback, geniex against curl"
        print(f"\n== {title}", flush=True)
        with running(root / NAME, sha256) as hub:
            results = compare(hub, root, args.rounds)
            again = None if args.no_kill else killed(hub, root / "killed")
    passed = report(results, again)
    print(f"verdict: {'passed' if passed else 'FAILED'}: {title}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
