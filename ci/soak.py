"""A server under mixed load that comes and goes: `python -m ci.soak --minutes 30`.

Eight clients ask, stream, hang up at any moment, and send what is wrong, while models are switched,
replaced and deleted and the disk fills. It must never fail, every answer must be what the same
request gave alone, and neither memory nor files, threads or processes may grow.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ci.soaking.clients import CLIENTS, Report
from ci.soaking.scene import models, soak

TEST_MODELS = "GENIEX_TEST_MODELS"
_SHOWN = 20


def _tell(line: str) -> None:
    print(f"  {line}", flush=True)


def _summary(report: Report) -> None:
    rounds, cancelled = sum(report.done.values()), 0
    cancelled = sum(count for (_, ending), count in report.done.items() if ending != "whole")
    compared = ", ".join(f"{name} {count}" for name, count in sorted(report.compared.items()))
    statuses = ", ".join(f"{code or 'none'} {n}" for code, n in sorted(report.statuses.items()))
    _tell(f"{rounds} rounds of {CLIENTS} clients, {cancelled} cancelled; statuses: {statuses}")
    _tell(f"answers held against those alone: {compared}")


def main(words: Sequence[str] | None = None) -> int:
    """Soak a server, and return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m ci.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("serve", nargs="*", metavar="-- FLAG", help="of `geniex serve`")
    args = parser.parse_args(words)
    given = os.environ.get(TEST_MODELS)
    with models(Path(given) if given else None) as more:
        phase = max(5.0, args.minutes)
        outcome = soak(args.minutes * 60, more, args.seed, _tell, phase, args.serve)
    _summary(outcome.report)
    for problem in outcome.problems[:_SHOWN]:
        _tell(f"problem: {problem}")
    passed = not outcome.problems
    verdict = "passed" if passed else f"FAILED ({len(outcome.problems)})"
    print(f"verdict: {verdict}: soak of {args.minutes:g} minutes")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
