"""Answering a chat completion, as one object or as a stream of chunks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from geniex.answering import Answer, AnswerEvents
from geniex.server import sse
from geniex.server.answers import Ask, Ended, Item, Opened, answers, whole
from geniex.server.chat_completions.chunks import ChatChunks
from geniex.server.chat_completions.messages import read_messages
from geniex.server.chat_completions.protocol import ChatRequest
from geniex.server.chunks import Streamed, new_id
from geniex.server.fields import nth_choice
from geniex.server.logprobs import for_chat
from geniex.server.pump import collect
from geniex.server.state import ServerState
from geniex.session import OpenModel


async def complete(state: ServerState, body: ChatRequest, request: Request) -> Response:
    """The response to a request. Raises what its steps raise, before the first byte is sent."""
    body.check()

    def prepare() -> Sequence[Ask]:
        messages, options = read_messages(body.messages), body.options(state)

        def ask(model: OpenModel, choice: int) -> AnswerEvents:
            sampling = nth_choice(options.sampling, choice)
            return model.answer(messages, replace(options, sampling=sampling))

        return [ask]

    work = answers(state, body, prepare, body.choices)
    if body.stream:
        return sse.stream(Streamed(work, ChatChunks(include_usage=body.include_usage)))
    items = await collect(whole(work), request)
    return JSONResponse(completion(items, logprobs=bool(body.logprobs)))


def completion(items: Sequence[Item], *, logprobs: bool) -> dict[str, Any]:
    """The completion as one object."""
    opened = next(item for item in items if isinstance(item, Opened))
    ended = next(item for item in items if isinstance(item, Ended))
    chosen = (item for item in items if isinstance(item, tuple))
    return {
        "id": new_id(ChatChunks.id_prefix),
        "object": "chat.completion",
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


def _choice(index: int, answer: Answer, logprobs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if answer.tool_calls and not answer.content else answer.content,
        "refusal": None,
    }
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.text()},
            }
            for call in answer.tool_calls
        ]
    return {
        "index": index,
        "message": message,
        "logprobs": for_chat(answer.logprobs) if logprobs else None,
        "finish_reason": answer.finish_reason,
    }
