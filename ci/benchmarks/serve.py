"""Many clients at once against a peer's server: tokens per second, the ceiling, and the texts.

python3 ci/bench.py serve                       # 8 clients, both test models
python3 ci/bench.py serve --identity            # only: each text equals what it gets alone
python3 ci/bench.py serve --model F.gguf --clients 4 --rounds 3 --tokens 64

Both servers run all the time, each in a process of its own, and answer in turn; who is first
alternates. All get the same prompts as raw text, greedily, as streams.
"""

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from ci import models
from ci.benchmarks.serve_players import RowCosts, Served, Setting, ours, peer

LEAST_AGAINST_PEER = 0.9
LEAST_OF_CEILING = 0.85
CONTEXT = 512
PATIENCE = 600.0
ROW_ROUNDS = 30
# openings of texts that no test model ends within the tokens asked for
OPENINGS = (
    "Once upon a time, in a village by the sea,",
    "It was a bright cold day in April, and",
    "The history of the Roman Empire begins",
    "Dear Sir or Madam,\n\nI am writing to",
    "A recipe for pancakes:\n\nIngredients:\n-",
    "In 1969, the first humans",
    "The old captain looked at the map and",
    "Chapter one. The train left the station",
)


@dataclass(frozen=True)
class Streamed:
    """One stream: its text, its tokens as the server counts them."""

    text: str
    tokens: int


@dataclass(frozen=True)
class Round:
    """Streams that ran side by side, and the seconds from the first request to the last end.

    `costs` are seconds of a decode of one row and of a row for each client, measured beside it;
    `alone` is the tokens per second of one client, beside it too.
    """

    streams: tuple[Streamed, ...]
    seconds: float
    costs: tuple[float, float] = (0.0, 0.0)
    alone: float = 0.0

    @property
    def speed(self) -> float:
        """Tokens per second of all together."""
        return sum(one.tokens for one in self.streams) / self.seconds


def stream(served: Served, prompt: str, count: int) -> Streamed:
    """One completion as a stream; it is taken apart after its end, to leave the CPU alone."""
    where = urlsplit(served.url)
    body = {
        "prompt": prompt,
        "max_tokens": count,
        "temperature": 0,
        "repetition_penalty": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        **served.fields,
    }
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    try:
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        lines = response.readlines()
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(f"{served.name} answered {response.status}: {b''.join(lines)[:500]!r}")
    return read_events(served.name, lines)


def read_events(name: str, lines: Sequence[bytes]) -> Streamed:
    """The text and the count in a stream. Raises RuntimeError where it tells an error."""
    text, tokens = "", 0
    for line in lines:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            raise RuntimeError(f"{name}: {event['error']}")
        text += "".join(choice["text"] for choice in event["choices"])
        tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    return Streamed(text, tokens)


def play(served: Served, prompts: Sequence[str], count: int) -> Round:
    """All prompts at once, each by a client of its own."""
    results: list[Streamed | Exception | None] = [None] * len(prompts)
    together = threading.Barrier(len(prompts) + 1)

    def client(index: int) -> None:
        together.wait()
        try:
            results[index] = stream(served, prompts[index], count)
        except Exception as exc:
            results[index] = exc

    threads = [threading.Thread(target=client, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    together.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    streams: list[Streamed] = []
    for result in results:
        if not isinstance(result, Streamed):
            raise RuntimeError(f"{served.name}: a stream failed: {result}")
        streams.append(result)
    return Round(tuple(streams), seconds)


def prompts_of(clients: int, number: int) -> list[str]:
    """A round's prompts: all different, and different from those of other rounds."""
    return [
        f"{number + 2}.{index + 1} {OPENINGS[index % len(OPENINGS)]}" for index in range(clients)
    ]


def compare(
    mine: Served, theirs: Served, rows: RowCosts, args: argparse.Namespace
) -> tuple[list[Round], list[Round]]:
    """The rounds of both sides, in turn; round -1 warms up.

    The cost of rows and one client alone are measured in every round: a machine that does other
    things too slows all of them down alike.
    """
    played: dict[str, list[Round]] = {mine.name: [], theirs.name: []}
    for number in range(-1, args.rounds):
        for side in (mine, theirs) if number % 2 else (theirs, mine):
            one = play(side, prompts_of(args.clients, number), args.tokens)
            if number >= 0:
                played[side.name].append(one)
        alone = play(mine, [f"{number + 2} {OPENINGS[0]}"], args.tokens).speed
        costs = rows.measure(ROW_ROUNDS)
        if number >= 0:
            ours_now = played[mine.name]
            ours_now[-1] = replace(ours_now[-1], costs=costs, alone=alone)
            speeds = " against ".join(f"{it[-1].speed:.1f}" for it in played.values())
            print(f"  round {number + 1}: {speeds} tok/s", flush=True)
    return played[mine.name], played[theirs.name]


def spread(values: Sequence[float]) -> str:
    """Median and range as text."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def report_peer(mine: Sequence[Round], theirs: Sequence[Round]) -> bool:
    """Print the ratio of speeds; whether its median is enough."""
    ratios = [one.speed / other.speed for one, other in zip(mine, theirs, strict=True)]
    print(
        f"  against the peer: {spread(ratios)} of its tokens per second, median of {len(ratios)} "
        f"rounds; at least {LEAST_AGAINST_PEER} is asked",
        flush=True,
    )
    return statistics.median(ratios) >= LEAST_AGAINST_PEER


def report_ceiling(mine: Sequence[Round], clients: int) -> bool:
    """Print how near we come to what the cost of rows allows; whether the median is enough."""
    shares = [it.speed / (clients / it.costs[1]) for it in mine]
    one, many = (statistics.median(it.costs[place] for it in mine) for place in (0, 1))
    gain = statistics.median(it.speed / it.alone for it in mine)
    print(
        f"  cost of rows: {one * 1e3:.2f} ms for 1, {many * 1e3:.2f} ms for {clients}: at most "
        f"{clients / many:.1f} tok/s, {clients * one / many:.2f} times one row's; "
        f"{clients} clients have {gain:.2f} times what one alone has\n"
        f"  of the ceiling: {spread(shares)}; at least {LEAST_OF_CEILING} is asked",
        flush=True,
    )
    return statistics.median(shares) >= LEAST_OF_CEILING


def report_texts(served: Served, clients: int, count: int) -> bool:
    """Print how many texts are what they are alone; whether all are.

    They can only be for weights whose kernels give a row the same numbers in any batch: see
    docs/threads.md.
    """
    prompts = prompts_of(clients, 1000)
    alone = [stream(served, prompt, count).text for prompt in prompts]
    together = [one.text for one in play(served, prompts, count).streams]
    equal = sum(one == other for one, other in zip(alone, together, strict=True))
    print(f"  texts: {equal} of {len(prompts)} equal what they are alone", flush=True)
    return equal == len(prompts)


def run(setting: Setting, args: argparse.Namespace) -> bool:
    """One model; whether all that was asked for passed."""
    clients, count = args.clients, args.tokens
    title = f"{setting.model.name}, {clients} clients, threads: {setting.threads}"
    print(f"\n== {title}", flush=True)
    checks: list[Callable[[], bool]] = []
    with ExitStack() as stack:
        mine = stack.enter_context(ours(setting))
        if not args.speed:
            checks.append(lambda: report_texts(mine, clients, count))
        if not args.identity:
            theirs = stack.enter_context(peer(setting))
            rows = stack.enter_context(RowCosts(setting))
            played = compare(mine, theirs, rows, args)
            checks.append(lambda: report_peer(*played))
            checks.append(lambda: report_ceiling(played[0], clients))
        results = [check() for check in checks]
    print(f"verdict: {'passed' if all(results) else 'FAILED'}: {title}", flush=True)
    return all(results)


def main(words: Sequence[str] | None = None) -> int:
    """Run every model, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py serve", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=128, help="length of each answer")
    parser.add_argument("--rounds", type=int, default=7)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--identity", action="store_true", help="compare the texts only")
    only.add_argument("--speed", action="store_true", help="compare the speed only")
    args = parser.parse_args(words)
    files = args.model or [models.folder() / model.file for model in models.MODELS]
    results = [run(Setting(file, args.clients, args.threads, CONTEXT), args) for file in files]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
