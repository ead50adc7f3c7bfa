"""Speculative decoding: what it costs, whether it is ever slower than plain, and a peer's pace.

python3 ci/bench.py mtp                     # all of it: toys, the trained pair, a large pair
python3 ci/bench.py mtp --peer --only tiny-chat --rounds 20

All sides of a pair run in turn, answer by answer, each in a process of its own; who is first
rotates. Our own cost is taken where nobody else plays: the others' turns would leave caches cold.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from operator import add
from pathlib import Path
from typing import TypeAlias

from ci.benchmarks import mtp_models
from ci.benchmarks.mtp_models import Subject
from ci.benchmarks.mtp_players import ADAPTIVE, FIXED, PEER, PLAIN, Played, Side

MOST_COST = 150e-6
LEAST_AGAINST_PLAIN = 0.97
LEAST_BIG = 1.4
LEAST_AGAINST_PEER = 0.9
LEAST_BIG_AGAINST_PEER = 1.0
MOST_SHARE = 0.04  # of a step of the large pair
COUNTS_APART = 0.05
# counts of a pair that accepts next to nothing: a few tokens apart are no difference
FEW = 0.01
BIG_ROUNDS, BIG_TOKENS = 7, 96
MOST_COST_ROUNDS = 15

Rounds: TypeAlias = Mapping[str, Sequence[Played]]
COST = "cost"
SIDES = {COST: (FIXED,), "plain": (PLAIN, ADAPTIVE), "peer": (FIXED, ADAPTIVE, PEER)}


def play(subject: Subject, hows: Sequence[str], threads: int, rounds: int, count: int) -> Rounds:
    """Every side's rounds; who plays first rotates, and round -1 warms up."""
    played: dict[str, list[Played]] = {how: [] for how in hows}
    with ExitStack() as stack:
        sides = [stack.enter_context(Side(how, subject, threads)) for how in hows]
        for number in range(-1, rounds):
            answers = _round(sides, subject, number, count)
            for how in hows if number >= 0 else ():
                played[how].append(reduce(add, answers[how]))
    return played


def _round(
    sides: Sequence[Side], subject: Subject, number: int, count: int
) -> Mapping[str, Sequence[Played]]:
    """Each side's answers to the subject's prompts: close in time, as the machine's pace drifts."""
    answers: dict[str, list[Played]] = {side.name: [] for side in sides}
    for turn, prompt in enumerate(subject.prompts, number):
        first = turn % len(sides)
        for side in (*sides[first:], *sides[:first]):
            answers[side.name].append(side.play(prompt, count))
    return answers


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Median and range as text."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def report_cost(rounds: Sequence[Played], n_max: int) -> bool:
    """Print our own cost a verification step; whether the median is small enough."""
    costs = [one.own / one.steps for one in rounds]
    print(
        f"  own cost: {spread([cost * 1e6 for cost in costs], '.0f')} us a verification step at "
        f"n_max {n_max}, at most {MOST_COST * 1e6:.0f} is asked"
    )
    return statistics.median(costs) <= MOST_COST


def report_share(rounds: Sequence[Played]) -> bool:
    """Print which part of a step is our own cost; whether the median is small enough."""
    shares = [one.own / one.seconds for one in rounds]
    print(
        f"  own cost: {spread(shares, '.2%')} of a verification step, at most {MOST_SHARE:.0%} "
        "is asked"
    )
    return statistics.median(shares) <= MOST_SHARE


def report_ratio(
    title: str, ours: Sequence[Played], theirs: Sequence[Played], least: float, clock: str
) -> bool:
    """Print the ratio of speeds by both clocks; whether the median by `clock` is enough."""
    pairs = list(zip(ours, theirs, strict=True))
    ratios = {
        "wall": [mine.speed / other.speed for mine, other in pairs],
        "cpu": [mine.cpu_speed / other.cpu_speed for mine, other in pairs],
    }
    speeds = [statistics.median(one.speed for one in side) for side in (ours, theirs)]
    print(
        f"  {title}: wall {spread(ratios['wall'])}, cpu {spread(ratios['cpu'])}; "
        f"{speeds[0]:.1f} against {speeds[1]:.1f} tok/s; at least {least} by {clock} is asked"
    )
    return statistics.median(ratios[clock]) >= least


def report_texts(sides: Iterator[Sequence[Played]]) -> bool:
    """Print whether all our answers are the same text; whether they are."""
    texts = {one.texts for rounds in sides for one in rounds}
    if len(texts) > 1:
        print("  TEXTS DIFFER between our own sides")
    return len(texts) == 1


def near(ours: int, theirs: int, proposed: int) -> bool:
    """Whether two counts agree."""
    apart = abs(ours - theirs)
    return apart <= COUNTS_APART * max(ours, theirs) or apart <= FEW * proposed


def report_counts(ours: Played, theirs: Played) -> bool:
    """Print what was proposed and accepted on both sides; whether both counts agree."""
    print(
        f"  fixed drafts, ours/peer: proposed {ours.proposed}/{theirs.proposed}, "
        f"accepted {ours.accepted}/{theirs.accepted}; within {COUNTS_APART:.0%} is asked"
    )
    return near(ours.proposed, theirs.proposed, theirs.proposed) and near(
        ours.accepted, theirs.accepted, theirs.proposed
    )


def report(subject: Subject, rounds: Rounds, parts: Sequence[str], clock: str) -> bool:
    """Print and judge the parts with sides to compare; whether all that was asked for passed."""
    results = [report_texts(side for how, side in rounds.items() if how != PEER)]
    if "plain" in parts:
        adaptive = rounds[ADAPTIVE]
        least = LEAST_BIG if subject.large else LEAST_AGAINST_PLAIN
        results.append(report_ratio("against plain", adaptive, rounds[PLAIN], least, clock))
        proposed = sum(one.proposed for one in adaptive)
        accepted = sum(one.accepted for one in adaptive)
        print(f"  adaptive drafts: {accepted}/{proposed} accepted; it ended {adaptive[-1].state}")
    if "peer" in parts:
        # the peer's wheel is another build of llama.cpp: toys are not judged
        least = LEAST_AGAINST_PEER if subject.name == mtp_models.TRAINED else 0.0
        least = LEAST_BIG_AGAINST_PEER if subject.large else least
        results.append(report_counts(rounds[FIXED][-1], rounds[PEER][-1]))
        for how, asked in ((FIXED, least), (ADAPTIVE, 0.0)):
            title = f"{how} against {PEER}"
            results.append(report_ratio(title, rounds[how], rounds[PEER], asked, clock))
    return all(results)


def subjects(args: argparse.Namespace, folder: Path) -> Iterator[tuple[Subject, list[str]]]:
    """What to run, each with its parts."""
    parts = [part for part in SIDES if getattr(args, part)]
    everything = not parts and not args.big
    if everything:
        parts = list(SIDES)
    if parts:
        small = (mtp_models.trained(), *mtp_models.toys(folder))
        yield from ((it, parts) for it in small if not args.only or it.name in args.only)
    if args.big or (everything and not args.only):
        yield mtp_models.big(), list(SIDES)


def run(subject: Subject, parts: Sequence[str], args: argparse.Namespace) -> bool:
    """Play a pair's parts; whether all that was asked for passed."""
    rounds, tokens = args.rounds, args.tokens
    if subject.large:
        rounds, tokens = min(rounds, BIG_ROUNDS), min(tokens, BIG_TOKENS)
    results = []
    if COST in parts:
        few = min(rounds, MOST_COST_ROUNDS)
        fixed = play(subject, SIDES[COST], args.threads, few, tokens)[FIXED]
        results.append(report_share(fixed) if subject.large else report_cost(fixed, subject.n_max))
    compared = [part for part in parts if part != COST]
    if compared:
        hows = dict.fromkeys(how for part in compared for how in SIDES[part])
        played = play(subject, list(hows), args.threads, rounds, tokens)
        results.append(report(subject, played, compared, args.clock))
    return all(results)


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for, and return 1 if any of it failed."""
    parser = argparse.ArgumentParser(prog="bench.py mtp", description=__doc__.split("\n")[0])
    parser.add_argument("--cost", action="store_true", help="our own cost a verification step")
    parser.add_argument("--plain", action="store_true", help="adapted drafting against plain")
    parser.add_argument("--peer", action="store_true", help="against xllamacpp's draft-mtp")
    parser.add_argument("--big", action="store_true", help="a pair of 113 million parameters")
    parser.add_argument("--only", action="append", help="a pair's name (repeatable)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=200, help="the longest answer")
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu on a shared machine"
    )
    args = parser.parse_args(words)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for subject, parts in subjects(args, Path(folder)):
            print(f"\n== {subject.name}, threads: {args.threads}", flush=True)
            passed = run(subject, parts, args)
            print(f"verdict: {'passed' if passed else 'FAILED'}: {subject.name}", flush=True)
            results.append(passed)
    if not results:
        parser.error("no pair of that name")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
