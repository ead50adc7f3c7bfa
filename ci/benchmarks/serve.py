"""Many clients at once against a peer's server: tokens per second, gaps, the ceiling, the texts.

python3 ci/bench.py serve                       # 1, 4 and 8 clients; the tiny and both test models
python3 ci/bench.py serve --identity            # only: each text equals what it gets alone
python3 ci/bench.py serve --model F.gguf --clients 4 --rounds 3 --tokens 64

Both servers run all the time, each in a process of its own, and answer in turn; who is first
alternates. All get the same prompts as raw text, greedily, as streams.
"""

import argparse
import http.client
import itertools
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
from ci.benchmarks.mtp_models import trained
from ci.benchmarks.serve_players import RowCosts, Served, Setting, ours, peer

# of the peer's tokens per second, by the clients from which on it counts
LEAST_AGAINST_PEER = {1: 1.0, 2: 0.97, 5: 0.95}
LEAST_OF_CEILING = 0.85
# the 95th percentile of the seconds between chunks, to the peer's
MOST_GAP = 1.2
CLIENTS = (1, 4, 8)
# where a step takes less, what is around it counts, and the cost of rows is no ceiling
QUICK = 2e-3
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
    """One stream: its text, its tokens as the server counts them, seconds between its chunks."""

    text: str
    tokens: int
    gaps: tuple[float, ...] = ()


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

    @property
    def gap(self) -> float:
        """The 95th percentile of the seconds between chunks, of all streams; 0 for none."""
        gaps = sorted(gap for one in self.streams for gap in one.gaps)
        return gaps[int(0.95 * (len(gaps) - 1))] if gaps else 0.0


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
        pieces: list[tuple[float, bytes]] = []
        while piece := response.read1(1 << 16):
            pieces.append((time.perf_counter(), piece))
    finally:
        connection.close()
    whole = b"".join(piece for _, piece in pieces)
    if response.status != 200:
        raise RuntimeError(f"{served.name} answered {response.status}: {whole[:500]!r}")
    return replace(read_events(served.name, whole.splitlines()), gaps=gaps_of(pieces))


def gaps_of(pieces: Sequence[tuple[float, bytes]]) -> tuple[float, ...]:
    """Seconds between the chunks with text in what came, and when; those that came at once have 0.

    The end is no chunk, and neither is a comment.
    """
    times: list[float] = []
    rest = b""
    for moment, piece in pieces:
        *events, rest = (rest + piece).split(b"\n\n")
        times += [moment for one in events if b'"text":"' in one and b'"text":""' not in one]
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))


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


def prompts_of(clients: int, number: int, model: Path | None = None) -> list[str]:
    """A round's prompts: all different, and different from those of other rounds.

    The built-in model knows ten questions and nothing else.
    """
    if model == trained().target:
        questions = trained().prompts
        return [str(questions[(number + index) % len(questions)]) for index in range(clients)]
    return [
        f"{number + 2}.{index + 1} {OPENINGS[index % len(OPENINGS)]}" for index in range(clients)
    ]


def compare(
    mine: Served, theirs: Served, rows: RowCosts, setting: Setting, args: argparse.Namespace
) -> tuple[list[Round], list[Round]]:
    """The rounds of both sides, in turn; round -1 warms up.

    The cost of rows and one client alone are measured in every round: a machine that does other
    things too slows all of them down alike.
    """
    played: dict[str, list[Round]] = {mine.name: [], theirs.name: []}
    for number in range(-1, args.rounds):
        for side in (mine, theirs) if number % 2 else (theirs, mine):
            one = play(side, prompts_of(setting.slots, number, setting.model), args.tokens)
            if number >= 0:
                played[side.name].append(one)
        alone = play(mine, prompts_of(1, number + 50, setting.model), args.tokens).speed
        costs = rows.measure(ROW_ROUNDS)
        if number >= 0:
            ours_now = played[mine.name]
            ours_now[-1] = replace(ours_now[-1], costs=costs, alone=alone)
            speeds = " against ".join(f"{it[-1].speed:.1f}" for it in played.values())
            gaps = " against ".join(f"{it[-1].gap * 1e3:.2f}" for it in played.values())
            print(f"  round {number + 1}: {speeds} tok/s, {gaps} ms", flush=True)
    return played[mine.name], played[theirs.name]


def spread(values: Sequence[float]) -> str:
    """Median and range as text."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def report_peer(mine: Sequence[Round], theirs: Sequence[Round]) -> bool:
    """Print the ratio of speeds; whether its median is enough."""
    clients = len(mine[0].streams)
    least = max((count, asked) for count, asked in LEAST_AGAINST_PEER.items() if count <= clients)
    ratios = [one.speed / other.speed for one, other in zip(mine, theirs, strict=True)]
    print(
        f"  against the peer: {spread(ratios)} of its tokens per second, median of {len(ratios)} "
        f"rounds; at least {least[1]} is asked",
        flush=True,
    )
    return statistics.median(ratios) >= least[1]


def report_gaps(mine: Sequence[Round], theirs: Sequence[Round]) -> bool:
    """Print the ratio of the gaps between chunks; whether its median is small enough."""
    ratios = [one.gap / other.gap for one, other in zip(mine, theirs, strict=True) if other.gap]
    if not ratios:
        return True
    both = (statistics.median(one.gap for one in side) * 1e3 for side in (mine, theirs))
    print(
        f"  p95 gap between chunks: {' against '.join(f'{gap:.2f}' for gap in both)} ms, "
        f"{spread(ratios)} of the peer's; at most {MOST_GAP} is asked",
        flush=True,
    )
    return statistics.median(ratios) <= MOST_GAP


def report_ceiling(mine: Sequence[Round], clients: int) -> bool:
    """Print how near we come to what the cost of rows allows; whether the median is enough."""
    shares = [it.speed / (clients / it.costs[1]) for it in mine]
    one, many = (statistics.median(it.costs[place] for it in mine) for place in (0, 1))
    gain = statistics.median(it.speed / it.alone for it in mine)
    asked = one > QUICK
    print(
        f"  cost of rows: {one * 1e3:.2f} ms for 1, {many * 1e3:.2f} ms for {clients}: at most "
        f"{clients / many:.1f} tok/s, {clients * one / many:.2f} times one row's; "
        f"{clients} clients have {gain:.2f} times what one alone has\n"
        f"  of the ceiling: {spread(shares)}"
        f"{f'; at least {LEAST_OF_CEILING} is asked' if asked else ''}",
        flush=True,
    )
    return not asked or statistics.median(shares) >= LEAST_OF_CEILING


def report_texts(served: Served, setting: Setting, count: int) -> bool:
    """Print how many texts are what they are alone; whether all are.

    They can only be for weights whose kernels give a row the same numbers in any batch: see
    docs/threads.md.
    """
    prompts = prompts_of(setting.slots, 1000, setting.model)
    alone = [stream(served, prompt, count).text for prompt in prompts]
    together = [one.text for one in play(served, prompts, count).streams]
    equal = sum(one == other for one, other in zip(alone, together, strict=True))
    print(f"  texts: {equal} of {len(prompts)} equal what they are alone", flush=True)
    return equal == len(prompts)


def run(setting: Setting, args: argparse.Namespace) -> bool:
    """One model; whether all that was asked for passed."""
    clients, count = setting.slots, args.tokens
    title = f"{setting.model.name}, {clients} clients, threads: {setting.threads}"
    print(f"\n== {title}", flush=True)
    checks: list[Callable[[], bool]] = []
    with ExitStack() as stack:
        mine = stack.enter_context(ours(setting))
        if not args.speed:
            checks.append(lambda: report_texts(mine, setting, count))
        if not args.identity:
            theirs = stack.enter_context(peer(setting))
            rows = stack.enter_context(RowCosts(setting))
            played = compare(mine, theirs, rows, setting, args)
            checks.append(lambda: report_peer(*played))
            checks.append(lambda: report_gaps(*played))
            checks.append(lambda: report_ceiling(played[0], clients))
        results = [check() for check in checks]
    print(f"verdict: {'passed' if all(results) else 'FAILED'}: {title}", flush=True)
    return all(results)


def main(words: Sequence[str] | None = None) -> int:
    """Run every model, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py serve", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument(
        "--clients", type=int, action="append", help="repeatable; default 1, 4 and 8"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=128, help="length of each answer")
    parser.add_argument("--rounds", type=int, default=7)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--identity", action="store_true", help="compare the texts only")
    only.add_argument("--speed", action="store_true", help="compare the speed only")
    args = parser.parse_args(words)
    fetched = [models.folder() / model.file for model in models.MODELS]
    results = [
        run(Setting(file, clients, args.threads, CONTEXT), args)
        for file in args.model or [trained().target, *fetched]
        for clients in args.clients or CLIENTS
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
