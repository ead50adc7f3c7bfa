"""Answers that run while a long prompt is evaluated beside them: how much of their speed they keep.

python3 ci/bench.py interleave                  # 3 answers, a prompt of 4000 tokens, SmolLM2
python3 ci/bench.py interleave --answers 7 --prompt-tokens 2000 --rounds 3

Each round has the speed of the answers before, the speed while the prompt is evaluated, and the
same prompt alone. There is no peer: the ratios are of this project to itself.
"""

import argparse
import queue
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci import models
from ci.benchmarks.players import loaded
from ci.benchmarks.serve import OPENINGS, spread

LEAST_KEPT = 0.6
# of the prompt's speed alone: it must not starve either
LEAST_PREFILL = 0.25
BEFORE = 2.0  # seconds of answers before the prompt comes
VOCABULARY = 5000  # token ids of the prompt are below
REST = 64  # tokens of context beyond prompt and answers


@dataclass(frozen=True)
class Round:
    """Seconds, and tokens of all answers together in them."""

    before: float
    before_tokens: int
    beside: float
    beside_tokens: int
    alone: float

    @property
    def kept(self) -> float:
        """The answers' speed beside the prompt, to that before it."""
        return (self.beside_tokens / self.beside) / (self.before_tokens / self.before)

    @property
    def prefill(self) -> float:
        """The prompt's speed beside answers, to that alone."""
        return self.alone / self.beside


class Running:
    """Answers on threads of their own, whose tokens are counted as they come."""

    def __init__(self, model: Any, count: int) -> None:
        self.tokens: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._answers = [
            model.generate(request(model.tokenize(pieces(f"{index + 1}. {opening}"))))
            for index, opening in enumerate((OPENINGS * count)[:count])
        ]
        self._threads = [threading.Thread(target=self._read, args=(it,)) for it in self._answers]
        for thread in self._threads:
            thread.start()
        for _ in range(4 * count):  # all prompts are in
            self.tokens.get()

    def _read(self, answer: Any) -> None:
        for _ in answer:
            self.tokens.put(time.perf_counter())

    def count(self) -> int:
        """Tokens since the last call."""
        return sum(1 for _ in range(self.tokens.qsize()) if self.tokens.get())

    def stop(self) -> None:
        """End all answers."""
        for answer in self._answers:
            answer.stop()
        for thread in self._threads:
            thread.join()


def pieces(text: str) -> Any:
    """A prompt of one text."""
    from geniex_runtimes.contract import PromptPiece

    return [PromptPiece(text)]


def request(prompt: Sequence[int], most: int | None = None) -> Any:
    """A greedy request without the cache; without `most` it runs until it is stopped."""
    from geniex_runtimes.contract import GenerationRequest
    from geniex_runtimes.options import SamplingOptions

    sampling = SamplingOptions(temperature=0.0, repetition_penalty=1.0)
    return GenerationRequest(prompt=prompt, sampling=sampling, max_tokens=most, reuse_prefix=False)


def prefill(model: Any, prompt: Sequence[int]) -> float:
    """Seconds from asking to the first token."""
    begin = time.perf_counter()
    for _ in model.generate(request(prompt, 1)):
        pass
    return time.perf_counter() - begin


def play(model: Any, args: argparse.Namespace, number: int) -> Round:
    """One round."""
    places = range(args.prompt_tokens)
    prompt = [100 + (37 * place + 11 * number) % (VOCABULARY - 100) for place in places]
    running = Running(model, args.answers)
    try:
        running.count()
        begin = time.perf_counter()
        time.sleep(BEFORE)
        middle = time.perf_counter()
        before = running.count()
        beside = prefill(model, prompt)
        beside_tokens = running.count()
    finally:
        running.stop()
    alone = prefill(model, prompt)
    return Round(middle - begin, before, beside, beside_tokens, alone)


def report(rounds: Sequence[Round]) -> bool:
    """Print both ratios; whether their medians are enough."""
    kept = [one.kept for one in rounds]
    speeds = [one.prefill for one in rounds]
    print(f"  answers keep {spread(kept)} of their speed; at least {LEAST_KEPT} is asked")
    print(f"  the prompt has {spread(speeds)} of its speed; at least {LEAST_PREFILL} is asked")
    return statistics.median(kept) >= LEAST_KEPT and statistics.median(speeds) >= LEAST_PREFILL


def run(path: Path, args: argparse.Namespace) -> bool:
    """One model; whether all that was asked for passed."""
    title = f"{path.name}, {args.answers} answers, {args.prompt_tokens} tokens"
    print(f"\n== {title}", flush=True)
    slots, context = args.answers + 1, args.prompt_tokens + REST
    rounds: list[Round] = []
    with loaded(path, threads=args.threads, context=context, slots=slots) as model:
        for number in range(args.rounds):
            one = play(model, args, number)
            rounds.append(one)
            print(f"  round {number + 1}: {one.kept:.3f} and {one.prefill:.3f}", flush=True)
    passed = report(rounds)
    print(f"verdict: {'passed' if passed else 'FAILED'}: {title}", flush=True)
    return passed


def main(words: Sequence[str] | None = None) -> int:
    """Run every model, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py interleave", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(words)
    files = args.model or [models.folder() / models.MODELS[0].file]
    results = [run(file, args) for file in files]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
