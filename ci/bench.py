"""Benchmarks that pair geniex with a peer: `python3 ci/bench.py decode`, `... mtp --help`."""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci import models
from ci.environment import child_environment, prepare
from ci.llama_wheel import BuildError

BENCHES = ("decode", "interleave", "memory", "mtp", "ngram", "pull", "serve", "start", "ttft")


def main() -> int:
    """Set up, fetch the models, and run one benchmark with the words that follow its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", choices=BENCHES)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="options of the benchmark")
    args = parser.parse_args()
    try:
        python = prepare(["bench"])
        if args.bench not in ("mtp", "pull", "start"):
            models.ensure(python)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    command = [str(python), "-m", f"ci.benchmarks.{args.bench}", *args.words]
    return subprocess.run(command, env=child_environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
