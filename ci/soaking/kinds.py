"""The kinds of requests whose answers nobody can know: what counts is how they end."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

BUSY = 503
_BEGUN = 200
TINY = ("geniex/tiny-chat:Q8_0", "geniex/tiny-chat", "tiny")
DRAFT = {"spec_type": "draft-mtp", "spec_draft_model": "geniex/tiny-chat-draft", "spec_n_max": 3}
QUESTIONS = (
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


def _chat(rng: random.Random) -> Body:
    body: Body = {
        "model": rng.choice(TINY),
        "messages": [{"role": "user", "content": rng.choice(QUESTIONS)}],
        "max_tokens": rng.choice((1, 8, 40, 200)),
        "temperature": rng.choice((0, 0.8, 1.5)),
        "stream": rng.random() < 0.6,
    }
    if rng.random() < 0.3:
        body |= DRAFT
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
        "model": rng.choice(TINY),
        "prompt": prompt,
        "max_tokens": 30,
        "stream": rng.random() < 0.5,
    }


def _response(rng: random.Random) -> Body:
    return {
        "model": rng.choice(TINY),
        "input": rng.choice(QUESTIONS),
        "max_output_tokens": 40,
        "stream": rng.random() < 0.5,
    }


def _tokens(rng: random.Random) -> Body:
    return {"model": rng.choice(TINY), "content": rng.choice(QUESTIONS)}


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
    "health": Kind("/health", None, _FINE, 1),
    "metrics": Kind("/metrics", None, _FINE, 1),
    "bad": Kind("/v1/chat/completions", _bad, frozenset({400}), 2),
    "unknown": Kind("/v1/chat/completions", _unknown, frozenset({400, 404}), 1),
}


def fault_of(kind: Kind, status: int, data: bytes, *, whole: bool) -> str | None:
    """What is wrong with an answer, if anything is; a status of 0 is none that was waited for."""
    if status in (0, BUSY):
        return None
    # it waited for so long that its stream had begun: the error comes in it, or was not waited for
    late = status == _BEGUN and 200 not in kind.right and data.startswith(b": ping")
    if late and (not whole or b'"error":{' in data):
        return None
    if status not in kind.right:
        return f"status {status}: {data[:300]!r}"
    if status != 200:
        error = json.loads(data)["error"] if whole else None
        return None if error is None or error["message"] else "an error without a message"
    failed = b'"error":{' in data or b"response.failed" in data
    if failed and b'"server_busy"' in data:
        return None  # it had waited for so long that the stream had begun
    if failed:
        return f"an error in a stream: {data[-500:]!r}"
    ends = (b"data: [DONE]", b"response.completed", b"response.incomplete", b"}", b"# TYPE")
    if whole and not any(end in data[-20000:] for end in ends):
        return f"it is not whole: {data[-200:]!r}"
    return None
