"""Damaged models through `info`, `infer` and `serve`: `python -m ci.damage --seed N --count 200`.

None may end the process that loads it: each gives one clear error, or an answer. The exit code is 1
where one does not.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from ci.damage.cases import BUILTIN, case
from ci.damage.doors import Commands, Server
from ci.damage.trying import Verdict, report, try_case
from ci.geniex_server import running

BASES = ("g4-markov-target", "q35-mix", "bert-mean", "mimo-mix")


def main() -> int:
    """Try them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--verbose", action="store_true", help="a line for each")
    given = parser.parse_args()
    from tests.toys.maker import make

    with tempfile.TemporaryDirectory() as folder, running() as server:
        toys = Path(folder) / "toys"
        make(toys)
        bases = [BUILTIN, *(toys / f"{name}.gguf" for name in BASES)]
        verdicts: list[Verdict] = []
        commands = Commands(server.data_dir)
        for number in range(given.first, given.first + given.count):
            one = case(given.seed, number, bases)
            verdict = try_case(one, server.data_dir, commands, Server(server.url))
            if verdict.faults:
                # it may have died
                commands.close()
                commands = Commands(server.data_dir)
            verdicts.append(verdict)
            if given.verbose or verdict.faults:
                shown = "; ".join(verdict.faults) or verdict.text
                print(f"{one.title}: {verdict.how} {shown}", flush=True)
        commands.close()
    report(verdicts, print)
    return 1 if any(v.faults for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
