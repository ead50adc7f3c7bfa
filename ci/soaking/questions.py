"""Questions with one right answer for the bytes of a model, and the book of these answers."""

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ci.soaking.kinds import DRAFT, QUESTIONS, Body

Answer: TypeAlias = Any
Ask: TypeAlias = Callable[[str, Body], Answer]

_CHAT, _COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_RESPONSES, _EMBEDDINGS, _TOKENIZE = "/v1/responses", "/v1/embeddings", "/tokenize"
_NEAR = 1e-4  # of a vector's values: toys have float weights, whose sums differ by the batch


class BusyError(Exception):
    """Raised for a stream that was turned away once it had begun: it had waited for long."""


@dataclass(frozen=True)
class Question:
    """What is asked, but for the model's name; `streams` where the answer may come as events."""

    name: str
    path: str
    body: Body
    streams: bool = True


def _chat(text: str, **more: Any) -> Body:
    messages = [{"role": "user", "content": text}]
    return {"messages": messages, "temperature": 0, "max_tokens": 32, **more}


_SAMPLED = _chat("Tell me a story.", temperature=0.8, seed=7)
_LONG = _chat("Tell me about the owl and the fox. " * 12, max_tokens=12)
_RESPONSE = {"input": QUESTIONS[0], "temperature": 0, "max_output_tokens": 24}
TEXT = (
    *(Question(f"chat {n}", _CHAT, _chat(text)) for n, text in enumerate(QUESTIONS)),
    Question("chat long", _CHAT, _LONG),
    Question("chat seed", _CHAT, _SAMPLED),
    Question(
        "completion", _COMPLETIONS, {"prompt": "Once upon a time", "temperature": 0, "seed": 1}
    ),
    Question("response", _RESPONSES, _RESPONSE),
    Question("tokens", _TOKENIZE, {"content": "Once upon a time"}, streams=False),
)
VECTORS = (
    Question("embedding", _EMBEDDINGS, {"input": "the owl"}, streams=False),
    Question("embeddings", _EMBEDDINGS, {"input": ["one", "two words"]}, streams=False),
)


@dataclass
class Book:
    """The right answers, by the digest of the model's bytes and the question's name."""

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)

    def fill(self, digest: str, model: str, questions: tuple[Question, ...], ask: Ask) -> None:
        """Ask each question alone."""
        for question in questions:
            told = ask(question.path, {**question.body, "model": model})
            self.answers[digest, question.name] = told

    def knows(self, digest: str, question: Question, answer: Answer) -> bool:
        """Whether an answer is the right one for these bytes."""
        return _same(self.answers[digest, question.name], answer)


def varied(question: Question, rng: random.Random, *, pair: bool) -> Body:
    """The question in one of the ways that change nothing about its answer.

    `pair`: the model goes with the built-in draft.
    """
    body = dict(question.body)
    if question.streams and rng.random() < 0.5:
        body["stream"] = True
    if pair and question.path == _CHAT and rng.random() < 0.25:
        body |= DRAFT
    return body


def read(path: str, data: bytes) -> Answer:
    """The part of an answer that is to be the same each time, streamed or not.

    Raises BusyError, and ValueError or LookupError for what is no whole answer.
    """
    if not data.startswith((b"data:", b"event:", b":")):
        return _READ[path](json.loads(data))
    events = list(_events(data))
    if path == _RESPONSES:
        return _response(events[-1]["response"])
    choices = [choice for event in events for choice in event["choices"]]
    ended = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    key = "text" if path == _COMPLETIONS else "delta"
    pieces = [choice[key] for choice in choices]
    text = "".join(one if isinstance(one, str) else one.get("content") or "" for one in pieces)
    return [text, *ended]


def _events(data: bytes) -> Iterator[Any]:
    for line in data.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            event = json.loads(line.removeprefix("data: "))
            error = event.get("error") or event.get("response", {}).get("error")
            if error is not None and error.get("code") == "server_busy":
                raise BusyError
            if error is not None:
                raise ValueError(f"an error in a stream: {event}")
            yield event


def _response(told: Any) -> Answer:
    return [part["text"] for item in told["output"] for part in item["content"]]


_READ: dict[str, Callable[[Any], Answer]] = {
    _CHAT: lambda told: [
        told["choices"][0]["message"]["content"] or "",
        told["choices"][0]["finish_reason"],
    ],
    _COMPLETIONS: lambda told: [told["choices"][0]["text"], told["choices"][0]["finish_reason"]],
    _RESPONSES: _response,
    _TOKENIZE: lambda told: told["tokens"],
    _EMBEDDINGS: lambda told: [one["embedding"] for one in told["data"]],
}


def _same(one: Answer, other: Answer) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, abs_tol=_NEAR)
    return bool(one == other)
