"""Answering a completion, as one object or as a stream of chunks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from geniex.answering import Answer, AnswerOptions, AnswerPart
from geniex.chat.reasoning import Part
from geniex.server import sse
from geniex.server.answers import Ask, Ended, Events, Item, Opened, answers, whole
from geniex.server.chunks import Streamed, new_id
from geniex.server.completions.chunks import CompletionChunks
from geniex.server.completions.infill import infill
from geniex.server.completions.protocol import CompletionRequest
from geniex.server.fields import nth_choice
from geniex.server.logprobs import for_completion
from geniex.server.pump import collect
from geniex.server.state import ServerState
from geniex.session import OpenModel


async def complete(state: ServerState, body: CompletionRequest, request: Request) -> Response:
    """The response to a request. Raises what its steps raise, before the first byte is sent."""
    body.check()

    def prepare() -> Sequence[Ask]:
        options = body.options(state)
        return [_asking(body, prompt, options) for prompt in body.prompts]

    work = answers(state, body, prepare, body.choices)
    if body.stream:
        chunks = CompletionChunks(include_usage=body.include_usage, logprobs=body.logprobs)
        return sse.stream(Streamed(work, chunks))
    items = await collect(whole(work), request)
    return JSONResponse(completion(items, body.logprobs))


def _asking(
    body: CompletionRequest, prompt: str | list[int], options: AnswerOptions
) -> Callable[[OpenModel, int], Events]:
    def ask(model: OpenModel, choice: int) -> Events:
        own = replace(options, sampling=nth_choice(options.sampling, choice))
        tokens = infill(model, prompt, body.suffix) if body.suffix else prompt
        events = model.complete(tokens, own)
        if not body.echo:
            return events
        text = prompt if isinstance(prompt, str) else model.loaded.detokenize(prompt)
        # half a character, as JSON may hold, cannot be sent back
        return _Echo(events, text.encode("utf-8", "replace").decode())

    return ask


class _Echo:
    """An answer that begins with its prompt."""

    def __init__(self, events: Events, prompt: str) -> None:
        self._events = events
        self._prompt = prompt

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        yield Part("content", self._prompt)
        for event in self._events:
            if isinstance(event, Answer):
                event = replace(event, content=self._prompt + event.content)
            yield event

    def close(self) -> None:
        self._events.close()


def completion(items: Sequence[Item], logprobs: int | None) -> dict[str, Any]:
    """The completion as one object."""
    opened = next(item for item in items if isinstance(item, Opened))
    ended = next(item for item in items if isinstance(item, Ended))
    chosen = (item for item in items if isinstance(item, tuple))
    return {
        "id": new_id(CompletionChunks.id_prefix),
        "object": CompletionChunks.object_name,
        "created": opened.created,
        "model": opened.model,
        "system_fingerprint": opened.fingerprint,
        "choices": [
            _choice(index, answer, logprobs)
            for index, answer in chosen
            if isinstance(answer, Answer)
        ],
        "usage": ended.usage.for_chat(),
        "geniex": ended.geniex,
    }


def _choice(index: int, answer: Answer, logprobs: int | None) -> dict[str, Any]:
    entries = None
    if logprobs is not None:
        entries = for_completion(answer.logprobs, 0, alternatives=logprobs > 0)
    return {
        "index": index,
        "text": answer.content,
        "logprobs": entries,
        "finish_reason": answer.finish_reason,
    }
