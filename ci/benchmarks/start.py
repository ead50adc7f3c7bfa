"""How long it takes to start: `--help`, the first token of `infer`, a server that is ready.

python3 ci/bench.py start
python3 ci/bench.py start --clock cpu --rounds 20     # on a machine that is shared

Each is compared with what cannot be left out, in turn: an interpreter that does nothing, the
`Llama` class of llama-cpp-python and the server of xllamacpp on the same file. `cpu` is the CPU
time of the process and its children, in the place of the time that passes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.benchmarks.mtp_models import BUILTIN
from ci.benchmarks.serve import spread

MODEL = BUILTIN / "tiny-chat-Q8_0.gguf"
HELP_LIMIT, INFER_LIMIT, SERVE_LIMIT = 0.2, 1.5, 2.0  # seconds
PATIENCE = 120.0
_LLAMA = """
import sys
from llama_cpp import Llama
llama = Llama(sys.argv[1], n_ctx=4096, n_threads=1, verbose=False)
for piece in llama("hi", max_tokens=8, stream=True):
    print(piece["choices"][0]["text"], end="", flush=True)
"""
_SERVER = """
import sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.verbosity = sys.argv[1], 4096, 4, 0
params.kv_unified = False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("Listening on", server.listening_address, file=sys.stderr, flush=True)
while True:
    time.sleep(60)
"""


@dataclass(frozen=True)
class Took:
    """Seconds from the start of a process: until what is waited for, and of CPU up to its end."""

    wall: float
    cpu: float


Process = subprocess.Popen[bytes]
Wait = Callable[[Process], None]


def timed(command: Sequence[str], wait: Wait) -> Took:
    """Start a command, wait for what is to be timed, and have it end."""
    pipe = subprocess.PIPE
    before, began = _children_cpu(), time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        try:
            wait(process)
            wall = time.perf_counter() - began
            process.communicate()
        except BaseException:
            process.kill()
            raise
    return Took(wall, _children_cpu() - before)


def _children_cpu() -> float:
    import resource  # not on Windows, where this does not run

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def its_end(process: Process) -> None:
    """Wait for a command that is to end well."""
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"it failed: {said.decode(errors='replace')[-1000:]}")


def its_first_byte(process: Process) -> None:
    """Wait for the first byte on stdout."""
    assert process.stdout is not None and process.stderr is not None
    if not process.stdout.read(1):
        raise RuntimeError(f"it said nothing: {process.stderr.read()[-1000:]!r}")


def ready(path: str) -> Wait:
    """Wait until a server has said where it listens, and answers `path` with 200; then end it."""

    def wait(process: Process) -> None:
        url = _address(process)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(url + path, timeout=PATIENCE):
                    process.terminate()
                    return
            except urllib.error.HTTPError as exc:
                exc.close()  # not yet
            time.sleep(0.005)
        raise RuntimeError(f"{url}{path} is not ready after {PATIENCE:g} s")

    return wait


def _address(process: Process) -> str:
    assert process.stderr is not None
    said = b""
    for line in process.stderr:
        said += line
        if line.startswith(b"Listening on "):
            return line.split()[2].decode()
    raise RuntimeError(f"it does not listen: {said[-1000:]!r}")


@dataclass(frozen=True)
class Start:
    """One thing to time: our command and the peer's, what is waited for, and the limit.

    `over` is whether the limit is on what we take more than the peer. `load`: the limit is beside
    the time that loading the model takes.
    """

    title: str
    ours: tuple[str, ...]
    peer: tuple[str, ...]
    wait: tuple[Wait, Wait]
    limit: float
    peer_name: str
    over: bool = False
    load: bool = False


def starts(data_dir: Path) -> list[Start]:
    """All that is timed, with a data folder of its own."""
    python = sys.executable
    folder = ("--data-dir", str(data_dir))
    geniex = (python, "-m", "geniex")
    serve = (*geniex, "serve", "--port", "0", *folder)
    answers = (*geniex, "infer", "tiny", "-p", "hi", "--max-tokens", "1", "-q", *folder)
    llama, server = (python, "-c", _LLAMA, str(MODEL)), (python, "-c", _SERVER, str(MODEL))
    first, up = (its_first_byte, its_first_byte), ready("/health")
    return [
        Start(
            *("geniex --help", (*geniex, "--help"), (python, "-c", "pass"), (its_end, its_end)),
            *(HELP_LIMIT, "a bare interpreter"),
            over=True,
        ),
        Start(
            *("geniex infer: first token", answers, llama, first, INFER_LIMIT),
            "the class of llama-cpp-python",
        ),
        Start(
            *("geniex serve: ready", serve, server, (up, up), SERVE_LIMIT),
            "xllamacpp, which loads the model",
        ),
        Start(
            *("geniex serve tiny: model loaded", (*serve, "tiny"), server, (ready("/ready"), up)),
            *(SERVE_LIMIT, "xllamacpp"),
            load=True,
        ),
    ]


def run(start: Start, rounds: int, clock: str, load: float) -> bool:
    """Time both in turn, print, and tell whether the limit is kept; round -1 warms up."""
    print(f"\n== {start.title}, against {start.peer_name}", flush=True)
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(-1, rounds):
        sides = [(start.ours, start.wait[0], mine), (start.peer, start.wait[1], theirs)]
        for command, wait, found in sides if number % 2 else reversed(sides):
            took = timed(command, wait)
            if number >= 0:
                found.append(took.cpu if clock == "cpu" else took.wall)
    judged = [a - b for a, b in zip(mine, theirs, strict=True)] if start.over else mine
    limit = start.limit + (load if start.load else 0.0)
    passed = statistics.median(judged) <= limit
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    what = "more than the peer" if start.over else "from its start"
    print(
        f"  ours {spread(mine)} s, peer {spread(theirs)} s, ratio {spread(ratios)}\n"
        f"  {statistics.median(judged):.3f} s {what}; at most {limit:.3f} s are asked\n"
        f"verdict: {'passed' if passed else 'FAILED'}: {start.title} ({clock})",
        flush=True,
    )
    return passed


def load_time(data_dir: Path) -> float:
    """Seconds of a load of the model in a process that has everything else."""
    words = [sys.executable, "-m", "geniex", "bench", "tiny", "--json", "--data-dir", str(data_dir)]
    small = ["--prompt-tokens", "16", "--tokens", "4", "--repeat", "1", "--warmup", "0"]
    done = subprocess.run([*words, *small], capture_output=True, check=True)
    return float(json.loads(done.stdout)["cases"][0]["load_time"]["median"])


def main(words: Sequence[str] | None = None) -> int:
    """Time everything, and return 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="bench.py start", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--only", help="a part of a title, such as `--help`")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        chosen = [one for one in starts(data_dir) if args.only is None or args.only in one.title]
        load = load_time(data_dir) if any(one.load for one in chosen) else 0.0
        results = [run(one, args.rounds, args.clock, load) for one in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
