"""How a response is made: the request's options, the model's answer, the events or the object."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from geniex.answering import Answer, AnswerOptions
from geniex.chat.messages import Message
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolChoice, checked
from geniex.server.errors import ErrorBody, RequestError, describe, note
from geniex.server.pump import Job, Work, collect, leased, pump
from geniex.server.responses.assembly import Assembly
from geniex.server.responses.items import read_input
from geniex.server.responses.objects import skeleton
from geniex.server.responses.output import Json
from geniex.server.responses.protocol import ResponsesRequest, reading, refuse
from geniex.server.sse import event, stream
from geniex.server.state import ServerState
from geniex.server.usage import geniex_of, usage_of
from geniex.session import OpenModel
from geniex_catalogue.errors import ContextLengthError, GenerationError, TemplateError

# efforts that ask a model not to think
_NO_EFFORT = ("none", "minimal")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that has been read and can be honoured."""

    request: ResponsesRequest
    messages: list[Message]
    options: AnswerOptions


def read(request: ResponsesRequest, state: ServerState) -> Asked:
    """Check everything that needs no model. Raises RequestError, naming the field."""
    refuse(request)
    tools = reading("tools", lambda: _tools(request))
    choice = reading("tool_choice", lambda: ToolChoice.from_dict(request.tool_choice))
    reading("tool_choice", lambda: choice.pick(tools))
    given_format = request.text.format if request.text is not None else None
    options = AnswerOptions(
        sampling=request.sampling(state),
        max_tokens=request.max_output_tokens,
        think=_think(request),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        response_format=reading("text.format", lambda: ResponseFormat.from_dict(given_format)),
        template_variables=_variables(request),
        logprobs=(request.top_logprobs or 0) if request.wants_logprobs else None,
    )
    return Asked(request, read_input(request.input, request.instructions), options)


async def respond(state: ServerState, request: ResponsesRequest, http: Request) -> Response:
    """Answer a request, streamed or as a whole. Raises what the table of errors knows."""
    asked = read(request, state)
    work = leased(
        state.pool,
        request.wish(state),
        request.stays(),
        lambda job, model: _events(job, model, asked, state),
    )
    if request.stream:
        return stream(_lines(work), on_error=_error_event)
    events = await collect(work, http)
    return JSONResponse(_whole(events[-1]))


def _events(job: Job, model: OpenModel, asked: Asked, state: ServerState) -> Iterator[Json]:
    """The events of one response, on a thread. An error before the first of them is raised."""
    try:
        running = model.answer(asked.messages, asked.options)
    except (ContextLengthError, TemplateError) as exc:
        raise _about_input(exc) from exc
    job.closes(running)
    response = skeleton(asked.request, model.resolved.name, asked.options.tools)
    assembly = Assembly(response, logprobs=asked.request.wants_logprobs)
    with closing(running):
        yield from assembly.begin()
        try:
            for part in running:
                if isinstance(part, Answer):
                    state.metrics.answered(model.resolved.name, part.profile)
                    usage = usage_of([part]).for_responses()
                    yield from assembly.end(part, usage, geniex_of(model, [part]))
                else:
                    yield from assembly.add(part)
        except Exception as exc:
            if not asked.request.stream:
                raise
            status, body, _ = describe(exc)
            note(exc, status)
            yield from assembly.fail("server_error", body.error.message)


def _tools(request: ResponsesRequest) -> tuple[Tool, ...]:
    given = enumerate(request.tools or ())
    return checked([reading(f"tools[{at}]", partial(Tool.from_dict, tool)) for at, tool in given])


def _think(request: ResponsesRequest) -> bool | None:
    if request.enable_think is not None:
        return request.enable_think
    effort = request.reasoning.effort if request.reasoning is not None else None
    return None if effort is None else effort not in _NO_EFFORT


def _variables(request: ResponsesRequest) -> dict[str, Any]:
    """What the template is told, the client's own words over ours."""
    effort = request.reasoning.effort if request.reasoning is not None else None
    told = {} if effort is None else {"reasoning_effort": effort}
    return {**told, **(request.chat_template_kwargs or {})}


def _about_input(error: ContextLengthError | TemplateError) -> RequestError:
    """The same error, about the field that holds the conversation here."""
    status, body, _ = describe(error)
    return RequestError(body.error.message, param="input", code=body.error.code, status=status)


async def _lines(work: Work[Json]) -> AsyncGenerator[bytes, None]:
    """The events as they are sent, those that are ready together in one piece."""
    async with aclosing(pump(work)) as pieces:
        async for events in pieces:
            yield b"".join(event(each, each["type"]) for each in events)


def _whole(last: Json) -> Json:
    """The response of the last event. Raises GenerationError for one that failed."""
    response: Json = last["response"]
    if response["status"] == "failed":
        raise GenerationError(response["error"]["message"])
    return response


def _error_event(body: ErrorBody) -> bytes:
    """How a stream tells an error that came before there was a response."""
    error = body.error
    data = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
    return event({**data, "sequence_number": 0}, "error")
