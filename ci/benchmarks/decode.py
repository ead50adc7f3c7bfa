"""Plain greedy decoding against a peer: the same tokens, and how fast.

python3 ci/bench.py decode                          # the tiny and both test models, both peers
python3 ci/bench.py decode --identity               # the tokens only
python3 ci/bench.py decode --model F.gguf --peer xllamacpp --rounds 20
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ci import models
from ci.benchmarks.child import Child
from ci.benchmarks.mtp_models import trained
from ci.benchmarks.players import PLAYERS, Setting
from ci.benchmarks.prompts import PROMPTS

CONTEXT = 1024
LEAST_RATIO = 0.98
PEERS = tuple(name for name in PLAYERS if name != "geniex")
# it calls the very library that we call; the xllamacpp wheel is another build of llama.cpp, for
# plain AVX2, whose sums round in another order, so its tokens part from ours at near ties
SAME_LIBRARY = "llama-cpp-python"


@dataclass(frozen=True)
class Difference:
    """Where two greedy answers part: the prompt, and how many tokens they share."""

    prompt: str
    shared: int
    ours: tuple[int, ...]
    theirs: tuple[int, ...]


def shared_length(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many leading tokens are equal."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    longest = min(len(ours), len(theirs))
    return next((index for index, (one, other) in pairs if one != other), longest)


def compare_tokens(ours: Child, peer: Child, count: int) -> list[Difference]:
    """Ask both for the same prompts, and list what is not equal; prompts' tokens count too."""
    differences = []
    for text in PROMPTS:
        prompt = ours.tokenize(text)
        theirs_prompt = peer.tokenize(text)
        if prompt != theirs_prompt:
            shared = shared_length(prompt, theirs_prompt)
            differences.append(Difference(text, shared, tuple(prompt), tuple(theirs_prompt)))
            continue
        # both at a time: they are processes of their own, and nobody looks at their speed
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(it.play, prompt, count, with_tokens=True) for it in (ours, peer)]
            mine, theirs = (answer.result().tokens for answer in asked)
        if mine != theirs:
            differences.append(Difference(text, shared_length(mine, theirs), mine, theirs))
    return differences


def compare_speed(ours: Child, peer: Child, rounds: int, count: int) -> list[tuple[float, float]]:
    """Our speed and the peer's in tokens per second, one pair a round; who is first alternates."""
    pairs = []
    # a story: no test model ends it within the tokens asked for
    prompt = ours.tokenize(PROMPTS[1])
    for number in range(-1, rounds):
        order = (ours, peer) if number % 2 else (peer, ours)
        speeds = {it.name: it.play(prompt, count, with_tokens=False).speed for it in order}
        # round -1 warms both up
        if number >= 0:
            mine, theirs = speeds[ours.name], speeds[peer.name]
            pairs.append((mine, theirs))
            print(f"  round {number + 1}: {mine:.1f} against {theirs:.1f} tok/s", flush=True)
    return pairs


def report_identity(differences: Sequence[Difference]) -> bool:
    """Print what differs and the verdict; whether nothing did."""
    for it in differences:
        print(f"  {it.prompt!r}: equal for {it.shared} tokens, then")
        print(f"    ours   {it.ours[it.shared :][:8]}")
        print(f"    theirs {it.theirs[it.shared :][:8]}")
    equal = len(PROMPTS) - len(differences)
    print(f"  identity: {equal} of {len(PROMPTS)} answers equal token for token", flush=True)
    return not differences


def report_speed(pairs: Sequence[tuple[float, float]]) -> bool:
    """Print the median and range of the rounds' ratios; whether the median is enough."""
    ratios = [mine / theirs for mine, theirs in pairs]
    median = statistics.median(ratios)
    # what else runs on the machine only ever slows a round down
    best = max(mine for mine, _ in pairs) / max(theirs for _, theirs in pairs)
    print(
        f"  decode speed: ratio {median:.3f} (median of {len(ratios)}, "
        f"{min(ratios):.3f} to {max(ratios):.3f}; best round {best:.3f}), "
        f"at least {LEAST_RATIO} is asked",
        flush=True,
    )
    return median >= LEAST_RATIO


def run_pair(peer_name: str, setting: Setting, args: argparse.Namespace) -> bool:
    """One model against one peer; whether all that was asked for passed.

    The tokens are compared only with the peer that calls the same native library.
    """
    title = f"{setting.model.name}, threads: {setting.threads}, geniex against {peer_name}"
    print(f"\n== {title}", flush=True)
    results = []
    with Child("geniex", setting) as ours, Child(peer_name, setting) as peer:
        if not args.speed and peer_name == SAME_LIBRARY:
            results.append(report_identity(compare_tokens(ours, peer, args.tokens)))
        if not args.identity:
            results.append(report_speed(compare_speed(ours, peer, args.rounds, args.tokens)))
    print(f"verdict: {'passed' if all(results) else 'FAILED'}: {title}", flush=True)
    return all(results)


def main(words: Sequence[str] | None = None) -> int:
    """Run every pair, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py decode", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument("--peer", choices=PEERS, action="append", help="repeatable; default all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=48, help="length of each answer")
    parser.add_argument("--rounds", type=int, default=15, help="speed measurements of each pair")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--identity", action="store_true", help="compare the tokens only")
    only.add_argument("--speed", action="store_true", help="compare the speed only")
    args = parser.parse_args(words)
    peers = [SAME_LIBRARY] if args.identity else args.peer or PEERS
    fetched = [models.folder() / model.file for model in models.MODELS]
    files = args.model or [trained().target, *fetched]
    results = [
        run_pair(peer, Setting(file, args.threads, CONTEXT), args)
        for file in files
        for peer in peers
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
