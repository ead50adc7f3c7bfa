"""The wait for the first token of a chat's fifth turn: cold, warm, and after a restart.

python3 ci/bench.py ttft                        # the tiny pair's target and both test models
python3 ci/bench.py ttft --model F.gguf --rounds 3 --history 1000

Each round tells the model four turns of about 2,000 tokens and asks a fifth question: in a chat
that nobody had before (cold), in one whose fourth turn has just been answered (warm), and in one
whose fourth turn was answered by a server that has ended since, with `--cache-dir` (restart: the
file is read within the wait, the model is in memory by then). Who is first alternates. llama.cpp's
own server plays the warm turn beside, for comparison alone.
"""

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ci import models
from ci.benchmarks.serve_players import Served, Setting, peer
from ci.geniex_server import running

MOST_WARM = 0.1
MOST_RESTARTED = 0.2
TINY = Path("catalogue/geniex_catalogue/builtin/tiny-chat-Q8_0.gguf")
TURNS = 4
ANSWER = 12  # tokens
SPARE = 512  # tokens of the context beyond the history
PATIENCE = 600.0
THINGS = ("lamp", "map", "kettle", "letter", "clock", "coat", "violin", "basket", "mirror", "key")
PLACES = ("shelf", "cellar", "garden", "kitchen", "attic", "hall", "shed", "study", "porch")

Message = dict[str, str]


@dataclass(frozen=True)
class First:
    """The wait for a first token in seconds, the whole text, and what the server counted."""

    seconds: float
    text: str
    prompt: int
    cached: int


@dataclass(frozen=True)
class Round:
    """The waits of one round in seconds; the peer's warm one is None where it cannot play."""

    cold: float
    warm: float
    restarted: float
    peer: float | None = None


def sentences(chat: int, turn: int, count: int) -> str:
    """Prose of so many sentences, other ones in each chat and turn."""
    numbers = range(chat * 1000 + turn * 100, chat * 1000 + turn * 100 + count)
    return " ".join(
        f"On day {number} the {THINGS[number * 7 % 10]} was carried to the "
        f"{PLACES[number * 5 % 9]} and the {THINGS[number * 3 % 10]} was left behind."
        for number in numbers
    )


def history(chat: int, count: int) -> list[Message]:
    """The messages up to the fourth question, of `count` sentences in all."""
    messages: list[Message] = []
    for turn in range(TURNS):
        if turn:
            messages.append({"role": "assistant", "content": f"I have noted part {turn}."})
        told = f"Chat {chat}. {sentences(chat, turn, count // TURNS)} Please note it."
        messages.append({"role": "user", "content": told})
    return messages


def fifth(messages: Sequence[Message], answer: str) -> list[Message]:
    """The messages up to the fifth question, after what the fourth was answered."""
    question = {"role": "user", "content": "Where was the lamp carried to in the end?"}
    return [*messages, {"role": "assistant", "content": answer}, question]


def ask(served: Served, messages: Sequence[Message]) -> First:
    """A chat completion as a stream. Raises RuntimeError where there is none."""
    where = urlsplit(served.url)
    body = {
        "messages": list(messages),
        "max_tokens": ANSWER,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **served.fields,
    }
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    try:
        begin = time.perf_counter()
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{served.name} answered {response.status}: {response.read()!r}")
        return read_events(served.name, begin, response)
    finally:
        connection.close()


def read_events(
    name: str, begin: float, lines: Iterator[bytes] | http.client.HTTPResponse
) -> First:
    """What a stream says, from `begin` on. Raises RuntimeError for an error or nothing."""
    first, text, prompt, cached = 0.0, "", 0, 0
    for line in lines:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            raise RuntimeError(f"{name}: {event['error']}")
        for choice in event["choices"]:
            delta = choice["delta"]
            said = delta.get("content") or delta.get("reasoning_content") or ""
            if said:
                first = first or time.perf_counter() - begin
            text += delta.get("content") or ""
        if usage := event.get("usage"):
            prompt = usage["prompt_tokens"]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    if not first:
        raise RuntimeError(f"{name} said nothing")
    return First(first, text, prompt, cached)


@contextmanager
def ours(setting: Setting, folder: Path | None = None) -> Iterator[Served]:
    """`geniex serve` with the model loaded, and `folder` for what it keeps."""
    words = [str(setting.model), "--parallel", str(setting.slots), "--keepalive", "-1"]
    words += ["--threads", str(setting.threads), "--nctx", str(setting.context)]
    words += ["--cache-dir", str(folder)] if folder is not None else []
    with running(*words) as server:
        served = Served("geniex", server.url, {"model": str(setting.model)})
        ask(served, [{"role": "user", "content": "hello"}])  # loaded, and its template compiled
        yield served


def warm(served: Served, chat: int, count: int) -> First:
    """The fifth turn right after the fourth."""
    messages = history(chat, count)
    return ask(served, fifth(messages, ask(served, messages).text))


def cold(served: Served, chat: int, count: int) -> First:
    """The fifth turn of a chat that is told at once."""
    return ask(served, fifth(history(chat, count), "I have noted all four parts."))


def restarted(setting: Setting, chat: int, count: int) -> First:
    """The fifth turn after a restart of the server that answered the fourth."""
    messages = history(chat, count)
    with tempfile.TemporaryDirectory() as folder:
        with ours(setting, Path(folder)) as before:
            answer = ask(before, messages).text
        with ours(setting, Path(folder)) as after:
            return ask(after, fifth(messages, answer))


def sentences_for(served: Served, tokens: int) -> int:
    """How many sentences a history of so many tokens has, by asking with a few of them."""
    few, more = (ask(served, history(900 + count, count)).prompt for count in (8, 16))
    return max(TURNS, round((tokens - few) / ((more - few) / 8)) + 8)


def play(setting: Setting, args: argparse.Namespace) -> list[Round]:
    """All rounds of a model."""
    rounds: list[Round] = []
    with ExitStack() as stack:
        mine = stack.enter_context(ours(setting))
        theirs = None if args.alone else stack.enter_context(peer(setting))
        count = sentences_for(mine, args.history)
        for number in range(args.rounds):
            chats = range(3 * number + 1, 3 * number + 4)
            if number % 2:
                hot, fresh = warm(mine, chats[0], count), cold(mine, chats[1], count)
            else:
                fresh, hot = cold(mine, chats[1], count), warm(mine, chats[0], count)
            again = restarted(setting, chats[2], count)
            other = _peer_wait(theirs, chats[0], count) if theirs is not None else None
            rounds.append(Round(fresh.seconds, hot.seconds, again.seconds, other))
            beside = "" if other is None else f", peer warm {other * 1e3:.0f} ms"
            print(
                f"  round {number + 1}: {fresh.prompt} tokens, cold {_told(fresh)}, "
                f"warm {_told(hot)}, restarted {_told(again)}{beside}",
                flush=True,
            )
    return rounds


def _peer_wait(theirs: Served, chat: int, count: int) -> float | None:
    """The peer's wait; None, which is said, where it has no use for the model's chat template."""
    try:
        return warm(theirs, chat, count).seconds
    except RuntimeError as error:
        print(f"  the peer does not play: {str(error)[:200]}", flush=True)
        return None


def _told(first: First) -> str:
    return f"{first.seconds * 1e3:.0f} ms ({first.cached} cached)"


def spread(values: Sequence[float]) -> str:
    """Median and range as text."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def report(rounds: Sequence[Round], title: str) -> bool:
    """Print the ratios; whether their medians are small enough."""
    warms = [one.warm / one.cold for one in rounds]
    again = [one.restarted / one.cold for one in rounds]
    passed = statistics.median(warms) <= MOST_WARM and statistics.median(again) <= MOST_RESTARTED
    print(
        f"  warm: {spread(warms)} of the cold wait; at most {MOST_WARM} is asked\n"
        f"  restarted: {spread(again)} of the cold wait; at most {MOST_RESTARTED} is asked"
    )
    beside = [one.warm / one.peer for one in rounds if one.peer]
    if beside:
        print(f"  warm against the peer's warm wait: {spread(beside)}")
    print(f"verdict: {'passed' if passed else 'FAILED'}: {title}", flush=True)
    return passed


def run(model: Path, args: argparse.Namespace) -> bool:
    """One model; whether it passed."""
    title = f"{model.name}, a history of {args.history} tokens, threads: {args.threads}"
    print(f"\n== {title}", flush=True)
    setting = Setting(model.resolve(), 1, args.threads, args.history + SPARE)
    return report(play(setting, args), title)


def main(words: Sequence[str] | None = None) -> int:
    """Run every model, and return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="bench.py ttft", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, action="append", help="a GGUF file (repeatable)")
    parser.add_argument("--history", type=int, default=2000, help="tokens of the first four turns")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="leave the peer out")
    args = parser.parse_args(words)
    known = [models.folder() / model.file for model in models.MODELS]
    results = [run(file, args) for file in args.model or [TINY, *known]]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
