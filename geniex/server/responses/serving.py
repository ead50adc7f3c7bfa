"""How a response is made: the request is read, the model answers, its parts become the response."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from geniex.answering import Answer, AnswerEvents
from geniex.server import sse
from geniex.server.answers import Ask, Ended, Item, Opened, answers
from geniex.server.errors import ErrorBody, RequestError, describe, note
from geniex.server.pump import Work, collect, pump
from geniex.server.responses.assembly import Assembly
from geniex.server.responses.items import read_input
from geniex.server.responses.objects import skeleton
from geniex.server.responses.output import Json
from geniex.server.responses.protocol import ResponsesRequest
from geniex.server.state import ServerState
from geniex.session import OpenModel
from geniex_catalogue.errors import GenieXError, SchemaError, TemplateError
from geniex_runtimes.errors import ContextLengthError


async def respond(state: ServerState, body: ResponsesRequest, request: Request) -> Response:
    """The response to a request. Raises what its steps raise, before the first byte is sent."""
    body.check()

    def prepare() -> Sequence[Ask]:
        messages, options = read_input(body.input, body.instructions), body.options(state)

        def ask(model: OpenModel, choice: int) -> AnswerEvents:
            try:
                return model.answer(messages, options)
            except (ContextLengthError, SchemaError, TemplateError) as exc:
                raise _in_our_fields(exc) from exc

        return [ask]

    work = answers(state, body, prepare)
    if body.stream:
        return sse.stream(_lines(work, Making(body)), on_error=_error_event)
    response = json.dumps(whole(await collect(work, request), body), ensure_ascii=False)
    # a lone surrogate of the request cannot be sent back
    return Response(response.encode(errors="replace"), media_type="application/json")


def whole(items: Sequence[Item], body: ResponsesRequest) -> Json:
    """The response as one object."""
    making = Making(body)
    for item in items:
        for _ in making.of(item):
            pass
    return making.assembly.response


class Making:
    """Turns the items of an answer into events, and keeps the response that they add up to."""

    assembly: Assembly

    def __init__(self, body: ResponsesRequest) -> None:
        self._body = body
        self._begun = False
        self._answer: Answer | None = None

    @property
    def begun(self) -> bool:
        """Whether an event has been given: the status of a stream is decided by then."""
        return self._begun

    def of(self, item: Item) -> Iterator[Json]:
        """The events of an item."""
        if isinstance(item, Opened):
            response = skeleton(self._body, item.model, item.created)
            self.assembly = Assembly(response, logprobs=self._body.wants_logprobs)
            return
        if not self._begun:
            # not at `Opened`: a prompt that is too long is found after it
            self._begun = True
            yield from self.assembly.begin()
        if isinstance(item, Ended):
            assert self._answer is not None
            limited = self._answer.finish_reason == "length"
            yield from self.assembly.end(limited, item.usage.for_responses(), item.geniex)
        elif isinstance(item[1], Answer):
            self._answer = item[1]
        else:
            yield from self.assembly.add(item[1])


async def _lines(work: Work[Item], making: Making) -> AsyncGenerator[bytes, None]:
    """The events as they are sent, those that are ready together in one piece."""
    try:
        async with aclosing(pump(work)) as batches:
            async for items in batches:
                if text := b"".join(_line(event) for item in items for event in making.of(item)):
                    yield text
    except Exception as exc:
        if not making.begun:
            raise
        status, body, _ = describe(exc)
        note(exc, status)
        yield b"".join(map(_line, making.assembly.fail(body.error.message)))


def _line(event: Json) -> bytes:
    return sse.event(event, event["type"])


def _in_our_fields(error: GenieXError) -> RequestError:
    """The same error, about the fields that hold the conversation and the format here."""
    status, body, _ = describe(error)
    told = body.error
    param = (told.param or "").replace("response_format", "text.format")
    return RequestError(
        told.message.replace("`response_format", "`text.format"),
        param="input" if param == "messages" else param or None,
        code=told.code,
        status=status,
    )


def _error_event(body: ErrorBody) -> bytes:
    """How a stream tells of an error that came before there was a response, but after a ping."""
    error = body.error
    data = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
    return _line({**data, "sequence_number": 0})
