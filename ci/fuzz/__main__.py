"""Feed the readers with what nobody would write: `python -m ci.fuzz --minutes 10 [--only NAMES]`.

Each target gets that long. What fails is made small, kept in `tests/data/corpus/TARGET`, and told;
a test replays all that is there. The exit code is 1 where anything was found.
"""

import argparse
import logging
import sys
import time

from ci.fuzz.bodies import BODIES
from ci.fuzz.files import FILES
from ci.fuzz.running import feed
from ci.fuzz.target import Target
from ci.fuzz.texts import TEXTS

TARGETS: dict[str, Target] = {target.name: target for target in (*TEXTS, *FILES, *BODIES)}


def main() -> int:
    """Feed the targets one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--only", help=f"targets with commas, of {', '.join(TARGETS)}")
    parser.add_argument("--seed", type=int, help="[default: by the clock]")
    given = parser.parse_args()
    logging.disable()
    chosen = given.only.split(",") if given.only else list(TARGETS)
    if unknown := [name for name in chosen if name not in TARGETS]:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    seed = int(time.time()) if given.seed is None else given.seed
    found = 0
    for name in chosen:
        outcome = feed(TARGETS[name], given.minutes * 60, seed)
        word = "FOUND" if outcome.finding else "nothing"
        print(f"{name:11} {outcome.seconds:6.0f} s {outcome.inputs:9} inputs  {word}", flush=True)
        if outcome.finding:
            found += 1
            print(f"kept as {outcome.kept}\n{outcome.finding.error}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
