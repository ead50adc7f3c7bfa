"""How much memory the server takes, against a peer's: the same model, contexts and requests.

python3 ci/bench.py memory                      # the built-in model and both test models
python3 ci/bench.py memory --model F.gguf --slots 8 --context 2048

In each round both servers are started anew, each in a process of its own, and answer the same
prompts on all slots. Compared is the most that the process ever had resident: its own memory, and
the pages of mapped files, such as the weights, that it has touched. Both keep the whole context of
layers with a sliding window, so that a chat can go on from any place. Linux only.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci import models
from ci.benchmarks.child import Worker
from ci.benchmarks.mtp_models import BUILTIN
from ci.benchmarks.serve import play, prompts_of, spread
from ci.benchmarks.serve_players import MODULE, Served, Setting
from ci.geniex_server import running

MOST_AGAINST_PEER = 1.1
SLOTS, CONTEXT = 4, 4096
_TINY = "tiny-chat-Q8_0.gguf"
_MIB = 1 << 20


@dataclass(frozen=True)
class Watched:
    """A server, and the process to look at."""

    served: Served
    process: int


Start = Callable[[Setting, Path], AbstractContextManager[Watched]]


@dataclass(frozen=True)
class Taken:
    """Bytes: the most that was resident; at the end its own, of files, and of its children."""

    peak: int
    own: int
    files: int
    children: int

    def __str__(self) -> str:
        return (
            f"{self.peak / _MIB:.1f} MiB (own {self.own / _MIB:.1f}, of files "
            f"{self.files / _MIB:.1f}, children {self.children / _MIB:.1f})"
        )


@contextmanager
def ours(setting: Setting, data_dir: Path) -> Iterator[Watched]:
    """`geniex serve` with the model by its path."""
    words = [str(setting.model), "--parallel", str(setting.slots), "--keepalive", "-1"]
    words += ["--threads", str(setting.threads), "--nctx", str(setting.context)]
    with running(*words, data_dir=data_dir) as server:
        yield Watched(Served("geniex", server.url, {"model": str(setting.model)}), server.process)


@contextmanager
def peer(setting: Setting, _: Path, kind: str = "peer-whole") -> Iterator[Watched]:
    """llama.cpp's own server, as the xllamacpp wheel carries it."""
    numbers = (setting.slots, setting.threads, setting.context)
    words = [kind, str(setting.model), *map(str, numbers)]
    with Worker("xllamacpp", MODULE, words) as worker:
        yield Watched(Served("xllamacpp", worker.ask({})["url"]), worker.process)


def read_status(text: str) -> dict[str, int]:
    """The sizes in /proc/PID/status, in bytes."""
    pairs = (line.split(":", 1) for line in text.splitlines() if line.endswith(" kB"))
    return {name: int(rest.split()[0]) << 10 for name, rest in pairs}


def taken(process: int) -> Taken:
    """What a process takes, and its children."""
    import psutil

    found = read_status(Path(f"/proc/{process}/status").read_text(encoding="ascii"))
    children = psutil.Process(process).children(recursive=True)
    resident = sum(child.memory_info().rss for child in children)
    return Taken(found["VmHWM"], found["RssAnon"], found["RssFile"], resident)


def measure(start: Start, setting: Setting, data_dir: Path, tokens: int) -> Taken:
    """Start a server, have it answer twice on all slots, and look."""
    with start(setting, data_dir) as watched:
        for number in range(2):
            play(watched.served, prompts_of(setting.slots, number), tokens)
        return taken(watched.process)


def report(mine: Sequence[Taken], theirs: Sequence[Taken]) -> bool:
    """Print both sides and the ratio of peaks; whether its median is small enough."""
    for name, side in (("geniex", mine), ("xllamacpp", theirs)):
        print(f"  {name}: {sorted(side, key=lambda one: one.peak)[len(side) // 2]}")
    ratios = [one.peak / other.peak for one, other in zip(mine, theirs, strict=True)]
    median = statistics.median(ratios)
    more = statistics.median(a.peak - b.peak for a, b in zip(mine, theirs, strict=True))
    print(
        f"  peak: {spread(ratios)} of the peer's, {more / _MIB:+.1f} MiB, median of {len(ratios)}; "
        f"at most {MOST_AGAINST_PEER} is asked",
        flush=True,
    )
    return median <= MOST_AGAINST_PEER


def windowed_peer(setting: Setting, data_dir: Path) -> AbstractContextManager[Watched]:
    """The peer as it is by default: of sliding windows it keeps no more than they show."""
    return peer(setting, data_dir, "peer")


def run(setting: Setting, args: argparse.Namespace) -> bool:
    """One model; whether it passed."""
    title = f"{setting.model.name}, {setting.slots} slots of {setting.context} tokens"
    print(f"\n== {title}", flush=True)
    theirs: Start = windowed_peer if args.windowed else peer
    sides: dict[Start, list[Taken]] = {ours: [], theirs: []}
    with tempfile.TemporaryDirectory() as folder:
        # what is tried out once for a model is no part of what its server takes
        measure(ours, setting, Path(folder), 1)
        for number in range(args.rounds):
            for side in (ours, theirs) if number % 2 else (theirs, ours):
                sides[side].append(measure(side, setting, Path(folder), args.tokens))
    passed = report(sides[ours], sides[theirs])
    print(f"verdict: {'passed' if passed else 'FAILED'}: {title}", flush=True)
    return passed


def main(words: Sequence[str] | None = None) -> int:
    """Run every model, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py memory", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument("--slots", type=int, default=SLOTS)
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens of each slot")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=24, help="length of each answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--windowed", action="store_true", help="a peer that keeps no more than a sliding window"
    )
    args = parser.parse_args(words)
    files = args.model or [BUILTIN / _TINY, *(models.folder() / m.file for m in models.MODELS)]
    settings = [Setting(file, args.slots, args.threads, args.context) for file in files]
    results = [run(setting, args) for setting in settings]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
