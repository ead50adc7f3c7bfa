"""`kill -9` at random moments of every command that writes: `python -m ci.kills --count 50`.

Pull, import, remove, update and serve are killed in turn. Behind each kill `geniex verify` must
find nothing wrong, or say exactly what is partial; the same command must go on to its end, and
leave what it leaves when nobody kills it. POSIX alone.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci.killing.deeds import DEEDS, Kill, workplace
from ci.killing.served import served_place

_SERVED = 6  # every so-manieth kill is one of a server


def kills(count: int, seed: int, *, serving: bool = True) -> Iterator[Kill]:
    """So many kills, each of the commands in turn."""
    rng = random.Random(seed)
    served = count // _SERVED if serving else 0
    with tempfile.TemporaryDirectory() as folder, workplace(Path(folder)) as place:
        for number in range(count - served):
            yield place.kill(DEEDS[number % len(DEEDS)], rng)
    if served:
        with served_place() as server:
            for _ in range(served):
                yield server.kill(rng)


def main(words: Sequence[str] | None = None) -> int:
    """Kill, and return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m ci.kills", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    seen: Counter[str] = Counter()
    faults = partial = 0
    for kill in kills(args.count, args.seed):
        ended = "killed" if kill.killed else "had ended"
        print(f"  {kill.deed}, {kill.moment}: {ended} {'; '.join(kill.partial)}", flush=True)
        for fault in kill.faults:
            print(f"    fault: {fault}")
        seen[kill.deed] += kill.killed
        faults += bool(kill.faults)
        partial += bool(kill.partial)
    told = ", ".join(f"{deed} {number}" for deed, number in sorted(seen.items()))
    print(f"  killed: {told}; {partial} times something was partial, and said so")
    print(f"verdict: {'FAILED' if faults else 'passed'}: {args.count} kills, {faults} with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
