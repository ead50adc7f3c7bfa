"""A server under mixed load that comes and goes: `python -m ci.soak --minutes 10`.

Clients at random ask, stream, hang up at any moment, and send what is wrong. It must never fail,
every slot must be free in the end, and memory must not grow.
"""

import argparse
import http.client
import json
import random
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ci.geniex_server import running

MOST_GROWTH = 0.05  # of the resident memory, after the warm-up
WARM_UP = 0.3  # of the time
CLIENTS = 8
PATIENCE = 60.0
BUSY = 503

Ending: TypeAlias = Literal["whole", "midway", "waiting", "at once"]
Body: TypeAlias = dict[str, Any]

_MODELS = ("geniex/tiny-chat:Q8_0", "geniex/tiny-chat", "tiny")
_QUESTIONS = (
    "What is the capital of France?",
    "Tell me about the owl.",
    "Tell me a story.",
    "What is 12 plus 6?",
    "Count from 3 to 9.",
)
_ENDLESS = "root ::= [a-z ] root"
_WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
_DRAFT = {"spec_type": "draft-mtp", "spec_draft_model": "geniex/tiny-chat-draft", "spec_n_max": 3}


def _chat(rng: random.Random) -> Body:
    body: Body = {
        "model": rng.choice(_MODELS),
        "messages": [{"role": "user", "content": rng.choice(_QUESTIONS)}],
        "max_tokens": rng.choice((1, 8, 40, 200)),
        "temperature": rng.choice((0, 0.8, 1.5)),
        "stream": rng.random() < 0.6,
    }
    if rng.random() < 0.3:
        body |= _DRAFT
    if rng.random() < 0.1:
        body["n"] = 2
    return body


def _endless(rng: random.Random) -> Body:
    return {**_chat(rng), "grammar_string": _ENDLESS, "max_tokens": 1500, "n": 1}


def _tools(rng: random.Random) -> Body:
    choice = rng.choice(("auto", "required", "none"))
    return {**_chat(rng), "tools": [_WEATHER], "tool_choice": choice, "max_tokens": 60}


def _schema(rng: random.Random) -> Body:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    return {**_chat(rng), "response_format": form, "max_tokens": 40}


def _completion(rng: random.Random) -> Body:
    prompt = rng.choice(("Once upon a time", [5, 6, 7], ["One", "Two"]))
    return {
        "model": rng.choice(_MODELS),
        "prompt": prompt,
        "max_tokens": 30,
        "stream": rng.random() < 0.5,
    }


def _response(rng: random.Random) -> Body:
    return {
        "model": rng.choice(_MODELS),
        "input": rng.choice(_QUESTIONS),
        "max_output_tokens": 40,
        "stream": rng.random() < 0.5,
    }


def _tokens(rng: random.Random) -> Body:
    return {"model": rng.choice(_MODELS), "content": rng.choice(_QUESTIONS)}


def _bad(rng: random.Random) -> Body:
    wrong: tuple[Body, ...] = (
        {"temperature": "hot"},
        {"messages": []},
        {"n": 0},
        {"spec_type": "draft-mtp", "spec_draft_model": "org/none"},
        {"reasoning_format": "deepsek"},
        {"grammar_string": "root ::= ["},
        {"messages": [{"role": "user", "content": "word " * 9000}]},
        {"response_format": {"type": "xml"}},
    )
    return {**_chat(rng), "n": 1, **rng.choice(wrong)}


def _unknown(rng: random.Random) -> Body:
    return {**_chat(rng), "model": rng.choice(("org/none", "nothing", "../x"))}


@dataclass(frozen=True)
class Kind:
    """One kind of request: where it goes, what it says, and the statuses that are right for it."""

    path: str
    body: Callable[[random.Random], Body] | None
    right: frozenset[int]
    weight: int = 1


_FINE = frozenset({200})
KINDS: Mapping[str, Kind] = {
    "chat": Kind("/v1/chat/completions", _chat, _FINE, 6),
    "endless": Kind("/v1/chat/completions", _endless, _FINE, 2),
    "tools": Kind("/v1/chat/completions", _tools, _FINE, 2),
    "schema": Kind("/v1/chat/completions", _schema, _FINE, 1),
    "completion": Kind("/v1/completions", _completion, _FINE, 2),
    "response": Kind("/v1/responses", _response, _FINE, 2),
    "tokens": Kind("/tokenize", _tokens, _FINE, 1),
    "models": Kind("/v1/models", None, _FINE, 1),
    "ps": Kind("/v1/ps", None, _FINE, 1),
    "bad": Kind("/v1/chat/completions", _bad, frozenset({400}), 2),
    "unknown": Kind("/v1/chat/completions", _unknown, frozenset({400, 404}), 1),
}
_ENDINGS: Mapping[Ending, int] = {"whole": 5, "midway": 2, "waiting": 2, "at once": 1}


@dataclass
class Report:
    """What happened: `done` counts (kind, ending), `faults` are the surprises."""

    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    busy: int = 0
    faults: list[str] = field(default_factory=list)


class Soak:
    """Clients of one server, from one seed. `report` is safe to read once they have ended."""

    def __init__(self, url: str, seed: int = 0) -> None:
        where = urlsplit(url)
        self._host, self._port = where.hostname or "", where.port
        self._seed = seed
        self._lock = threading.Lock()
        self.report = Report()

    def run(self, clients: int, rounds: int | None = None, until: float | None = None) -> None:
        """Let them ask `rounds` times together, or until a time of time.monotonic()."""
        left = iter(range(rounds)) if rounds is not None else None

        def client(number: int) -> None:
            rng = random.Random(f"{self._seed} {number}")
            while until is None or time.monotonic() < until:
                with self._lock:
                    if left is not None and next(left, None) is None:
                        return
                self._round(rng)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def settle(self) -> None:
        """Wait until nothing runs or waits. Raises RuntimeError where something stays."""
        end = time.monotonic() + PATIENCE
        while taken := [one for one in self._loaded() if one["busy"] or one["waiting"]]:
            if time.monotonic() > end:
                raise RuntimeError(f"slots are not free: {taken}")
            time.sleep(0.05)

    def _loaded(self) -> list[dict[str, Any]]:
        status, data = self._ask("GET", "/v1/ps", None, "whole", random.Random())
        if status != 200:
            raise RuntimeError(f"/v1/ps answered {status}: {data[:300]!r}")
        listed: list[dict[str, Any]] = json.loads(data)["data"]
        return listed

    def _round(self, rng: random.Random) -> None:
        name = rng.choices(list(KINDS), [kind.weight for kind in KINDS.values()])[0]
        ending = rng.choices(list(_ENDINGS), list(_ENDINGS.values()))[0]
        kind = KINDS[name]
        if name == "endless" and ending == "whole":
            ending = "midway"
        body = kind.body(rng) if kind.body is not None else None
        fault = None
        status = 0
        try:
            method = "POST" if body is not None else "GET"
            status, data = self._ask(method, kind.path, body, ending, rng)
            fault = _fault(kind, status, data, whole=ending == "whole")
        except (OSError, http.client.HTTPException, ValueError) as exc:
            fault = f"{type(exc).__name__}: {exc}"
        with self._lock:
            self.report.done[name, ending] += 1
            self.report.busy += status == BUSY
            if fault is not None:
                self.report.faults.append(f"{name}, {ending}: {fault}; {json.dumps(body)[:300]}")

    def _ask(
        self, method: str, path: str, body: Body | None, ending: Ending, rng: random.Random
    ) -> tuple[int, bytes]:
        """Status and body; 0 where we hung up before the status came."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json"})
            if ending == "at once":
                return 0, b""
            if ending == "waiting":
                time.sleep(rng.uniform(0, 0.1))
                return 0, b""
            response = connection.getresponse()
            size = rng.randint(1, 2000) if ending == "midway" else None
            return response.status, response.read(size)
        finally:
            connection.close()


def _fault(kind: Kind, status: int, data: bytes, *, whole: bool) -> str | None:
    """What is wrong with an answer, if anything is."""
    if status in (0, BUSY):
        return None
    if status not in kind.right:
        return f"status {status}: {data[:300]!r}"
    if status != 200:
        error = json.loads(data)["error"] if whole else None
        return None if error is None or error["message"] else "an error without a message"
    if b'"error":{' in data or b"response.failed" in data:
        return f"an error in a stream: {data[-500:]!r}"
    ends = (b"data: [DONE]", b"response.completed", b"response.incomplete", b"}")
    if whole and not any(end in data[-20000:] for end in ends):
        return f"it is not whole: {data[-200:]!r}"
    return None


def growth(samples: Sequence[int]) -> float:
    """How much larger the last fifth of the samples is than the first one, as a share."""
    part = max(1, len(samples) // 5)
    return statistics.median(samples[-part:]) / statistics.median(samples[:part]) - 1


def _long(url: str, process: int, minutes: float, seed: int) -> bool:
    """The long form, with memory watched; whether all is well."""
    import psutil

    soak, watched = Soak(url, seed), psutil.Process(process)
    start = time.monotonic()
    end, warm = start + minutes * 60, start + minutes * 60 * WARM_UP
    samples: list[int] = []
    while time.monotonic() < end:
        soak.run(CLIENTS, until=min(end, time.monotonic() + max(5.0, minutes)))
        soak.settle()
        size = watched.memory_info().rss
        if time.monotonic() > warm:
            samples.append(size)
        done = sum(soak.report.done.values())
        spent = time.monotonic() - start
        print(f"  {spent:5.0f} s: {done} rounds, {size / 2**20:.1f} MiB", flush=True)
    report = soak.report
    for fault in report.faults[:20]:
        print(f"  fault: {fault}")
    grown = growth(samples)
    print(f"  {sum(report.done.values())} rounds, {report.busy} turned away as busy")
    print(f"  {len(report.faults)} faults; every slot free; memory {grown:+.1%} after the warm-up")
    return not report.faults and grown <= MOST_GROWTH


def main(words: Sequence[str] | None = None) -> int:
    """Start a server on the built-in pair, load it, and return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m ci.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    with running() as server:
        passed = _long(server.url, server.process, args.minutes, args.seed)
        if "Traceback" in (written := server.log.read_text(encoding="utf-8")):
            print(written[-3000:])
            passed = False
    print(f"verdict: {'passed' if passed else 'FAILED'}: soak of {args.minutes:g} minutes")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
