"""Drafts that are copied from the context: tokens per second against our own plain decoding.

python3 ci/bench.py ngram                       # SmolLM2, two threads
python3 ci/bench.py ngram --threads 1 --draft-tokens 31 --clock cpu

Both sides are one loaded model, which answers every prompt plainly and with drafts, in turns; the
texts must be equal. Repeating prompts ask for a text again; ordinary ones do not.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci import models
from ci.benchmarks.ngram_prompts import ORDINARY, REPEATING, STOP
from ci.benchmarks.players import loaded

LEAST_REPEATING = 1.5
LEAST_ORDINARY = 0.97
CONTEXT = 2048


@dataclass(frozen=True)
class Played:
    """An answer, and seconds from its first token to its end, by the wall and of the CPU."""

    text: str
    tokens: int
    wall: float
    cpu: float
    proposed: int
    accepted: int


def play(model: Any, prompt: str, count: int, *, drafts: bool) -> Played:
    """One greedy answer."""
    from geniex_runtimes.contract import Done, GenerationRequest, PromptPiece
    from geniex_runtimes.options import SamplingOptions, SpeculativeOptions

    request = GenerationRequest(
        prompt=[PromptPiece(prompt)],
        sampling=SamplingOptions(temperature=0.0, repetition_penalty=1.0),
        max_tokens=count,
        stop=(STOP,),
        speculative=None if drafts else SpeculativeOptions(),
    )
    text, wall, cpu = "", 0.0, 0.0
    for event in model.generate(request):
        wall, cpu = wall or time.perf_counter(), cpu or time.process_time()
        if isinstance(event, Done):
            it = event.profile
            took = time.perf_counter() - wall, time.process_time() - cpu
            return Played(
                text, it.generated_tokens - 1, *took, it.draft_proposed, it.draft_accepted
            )
        text += event.text
    raise RuntimeError("the answer had no end")


def ratio(model: Any, prompt: str, args: argparse.Namespace) -> float | None:
    """The median over the rounds of the speed with drafts to that without; None: other texts."""
    ratios: list[float] = []
    last: Played | None = None
    play(model, prompt, 1, drafts=False)  # the prompt is in the cache then
    for number in range(args.rounds):
        order = (False, True) if number % 2 else (True, False)
        both = {drafts: play(model, prompt, args.tokens, drafts=drafts) for drafts in order}
        plain, last = both[False], both[True]
        if plain.text != last.text:
            print(f"  other texts: {plain.text!r}\n{last.text!r}")
            return None
        ratios.append(getattr(plain, args.clock) / getattr(last, args.clock))
    assert last is not None
    print(
        f"  {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), "
        f"{last.accepted} of {last.proposed} accepted, {last.tokens} tokens: {prompt[-40:]!r}",
        flush=True,
    )
    return statistics.median(ratios)


def report(name: str, ratios: Sequence[float | None], least: float, *, worst: bool) -> bool:
    """Print what prompts of a kind came to; whether it is enough and all texts were equal."""
    known = [one for one in ratios if one is not None]
    if len(known) < len(ratios) or not known:
        print(f"  {name}: {len(ratios) - len(known)} texts differ")
        return False
    value = min(known) if worst else statistics.geometric_mean(known)
    word = "worst" if worst else "mean"
    print(f"  {name}: {word} {value:.3f}; at least {least} is asked", flush=True)
    return value >= least


def run(path: Path, args: argparse.Namespace) -> bool:
    """One model; whether all that was asked for passed."""
    from geniex_runtimes.options import SpeculativeOptions

    title = f"{path.name}, {args.type}, up to {args.draft_tokens} tokens, threads: {args.threads}"
    print(f"\n== {title}", flush=True)
    wanted = SpeculativeOptions((args.type,), n_max=args.draft_tokens)
    with loaded(path, threads=args.threads, context=CONTEXT, speculative=wanted) as model:
        for warning in model.info.warnings:
            print(f"  {warning}")
        results: list[bool] = []
        if args.only != "ordinary":
            ratios = [ratio(model, prompt, args) for prompt in REPEATING]
            results.append(report("repeating", ratios, LEAST_REPEATING, worst=False))
        if args.only != "repeating":
            ratios = [ratio(model, prompt, args) for prompt in ORDINARY]
            results.append(report("ordinary", ratios, LEAST_ORDINARY, worst=True))
    print(f"verdict: {'passed' if all(results) else 'FAILED'}: {title}", flush=True)
    return all(results)


def main(words: Sequence[str] | None = None) -> int:
    """Run every model, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py ngram", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument("--type", default="ngram-simple")
    parser.add_argument("--draft-tokens", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=256, help="length of each answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--only", choices=("repeating", "ordinary"))
    args = parser.parse_args(words)
    files = args.model or [models.folder() / models.MODELS[0].file]
    results = [run(file, args) for file in files]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
