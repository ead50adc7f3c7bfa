"""The official client against a real server: every object and every chunk of its own types."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from openai.types.responses import FunctionToolParam, ResponseInputParam
from pydantic import BaseModel

from tests.geniex.server.clients.conftest import (
    DRAFT,
    PATIENCE,
    QUESTION,
    TINY,
    Target,
)
from tests.geniex.server.clients.strict import strictly

T = TypeVar("T")

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
SHORT = 24  # tokens


class Weather(BaseModel):
    """Look up the weather."""

    city: Literal["Rome", "Oslo"]
    days: int


class Fact(BaseModel):
    """What is asked for."""

    country: Literal["France", "Italy"]
    certain: bool


TOOL = openai.pydantic_function_tool(Weather, name="weather")
FLAT_TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Look up the weather.",
    "parameters": TOOL["function"]["parameters"],
    "strict": True,
}


def strict(told: Any) -> Any:
    """The object again, held to its own type to the last field."""
    return strictly(type(told), told.to_json(indent=None))


def all_strict(stream: Iterable[T]) -> list[T]:
    """A stream's objects, each held to its type."""
    return [strict(each) for each in stream]


def text_of(chunks: Iterable[ChatCompletionChunk]) -> str:
    """The content of a stream."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_every_model_that_is_listed_can_be_looked_up_and_asked(client: OpenAI) -> None:
    models = all_strict(client.models.list())
    assert models
    for model in models:
        assert strict(client.models.retrieve(model.id)) == model
        answer = strict(
            client.chat.completions.create(model=model.id, messages=ASKED, max_tokens=1)
        )
        assert answer.model == model.id


def test_a_chat(client: OpenAI, target: Target) -> None:
    completion = client.chat.completions.create(
        model=target.model, messages=ASKED, temperature=0, max_tokens=SHORT
    )
    strict(completion)
    assert completion._request_id
    (choice,) = completion.choices
    assert choice.finish_reason in ("stop", "length")
    if target.answer is not None:
        assert choice.message.content == target.answer
    usage = completion.usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_a_streamed_chat(client: OpenAI, target: Target) -> None:
    chunks = all_strict(
        client.chat.completions.create(
            model=target.model,
            messages=ASKED,
            temperature=0,
            max_tokens=SHORT,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert len({chunk.id for chunk in chunks}) == 1
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    reasons = [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason]
    assert len(reasons) == 1
    assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    if target.answer is not None:
        assert text_of(chunks) == target.answer


def test_the_stream_helper_puts_the_chunks_together(client: OpenAI, target: Target) -> None:
    # the helper raises where a limit of tokens ends an answer
    with client.chat.completions.stream(
        model=target.model, messages=ASKED, temperature=0, max_tokens=200, stop=[",", "."]
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content


def test_a_call_that_is_required(client: OpenAI, target: Target) -> None:
    completion = client.chat.completions.parse(
        model=target.model,
        messages=ASKED,
        tools=[TOOL],
        tool_choice="required",
        temperature=0,
        max_tokens=80,
    )
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    assert calls
    assert isinstance(calls[0].function.parsed_arguments, Weather)


def test_a_streamed_call_and_its_result(client: OpenAI, target: Target) -> None:
    chunks = all_strict(
        client.chat.completions.create(
            model=target.model,
            messages=ASKED,
            tools=[TOOL],
            tool_choice={"type": "function", "function": {"name": "weather"}},
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=80,
            stream=True,
        )
    )
    pieces = [call for chunk in chunks for c in chunk.choices for call in c.delta.tool_calls or ()]
    assert {piece.index for piece in pieces} == {0}
    assert [bool(piece.id) for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    functions = [piece.function for piece in pieces if piece.function is not None]
    assert functions[0].name == "weather"
    arguments = "".join(function.arguments or "" for function in functions)
    Weather.model_validate_json(arguments, strict=True)
    call = {"name": "weather", "arguments": arguments}
    after: list[Any] = [
        *ASKED,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": pieces[0].id, "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": pieces[0].id, "content": "18 degrees"},
    ]
    told = client.chat.completions.create(
        model=target.model, messages=after, tools=[TOOL], temperature=0, max_tokens=SHORT
    )
    strict(told)
    assert told.choices[0].message.content or told.choices[0].message.tool_calls


def test_structured_output(client: OpenAI, target: Target) -> None:
    completion = client.chat.completions.parse(
        model=target.model, messages=ASKED, response_format=Fact, temperature=0, max_tokens=80
    )
    assert isinstance(completion.choices[0].message.parsed, Fact)


def test_any_json_object(client: OpenAI, target: Target) -> None:
    completion = client.chat.completions.create(
        model=target.model,
        messages=ASKED,
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=SHORT,
    )
    text = completion.choices[0].message.content or ""
    assert text.lstrip().startswith("{")
    if completion.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)


def test_several_choices_logprobs_and_stops(client: OpenAI, target: Target) -> None:
    completion = client.chat.completions.create(
        model=target.model,
        messages=ASKED,
        n=2,
        seed=7,
        logprobs=True,
        top_logprobs=2,
        stop=["\n\n\n", "###"],
        logit_bias={"5": -100},
        max_completion_tokens=8,
    )
    strict(completion)
    assert [choice.index for choice in completion.choices] == [0, 1]
    for choice in completion.choices:
        assert choice.logprobs and choice.logprobs.content
        assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)


def test_a_completion(client: OpenAI, target: Target) -> None:
    completion = client.completions.create(
        model=target.model, prompt="The capital of France", max_tokens=4, temperature=0, logprobs=1
    )
    strict(completion)
    # chunks are of the same type, which has no `finish_reason` of null; the API sends them so
    chunks = client.completions.create(
        model=target.model,
        prompt="The capital of France",
        max_tokens=4,
        temperature=0,
        stream=True,
    )
    streamed = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    if target.model == TINY:
        assert streamed == completion.choices[0].text


def test_a_response(client: OpenAI, target: Target) -> None:
    response = client.responses.create(
        model=target.model,
        instructions="Be brief.",
        input=QUESTION,
        temperature=0,
        max_output_tokens=SHORT,
    )
    strict(response)
    assert response.status in ("completed", "incomplete")
    assert response.output_text


def test_a_streamed_response(client: OpenAI, target: Target) -> None:
    events = all_strict(
        client.responses.create(
            model=target.model,
            input=QUESTION,
            temperature=0,
            max_output_tokens=SHORT,
            stream=True,
        )
    )
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert "".join(deltas) == last.response.output_text
    if target.answer is not None:
        assert last.response.output_text == target.answer


def test_the_response_helper_puts_the_events_together(client: OpenAI, target: Target) -> None:
    with client.responses.stream(
        model=target.model, input=QUESTION, text_format=Fact, temperature=0, max_output_tokens=80
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Fact)


def test_a_response_that_calls_and_reads_the_result(client: OpenAI, target: Target) -> None:
    said: ResponseInputParam = [{"role": "user", "content": QUESTION}]
    response = client.responses.create(
        model=target.model,
        input=said,
        tools=[FLAT_TOOL],
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0,
        max_output_tokens=80,
    )
    strict(response)
    (call,) = [item for item in response.output if item.type == "function_call"]
    Weather.model_validate_json(call.arguments, strict=True)
    # as an agent does: everything that came is sent back
    said += [item.to_dict() for item in response.output]  # type: ignore[misc]
    said.append({"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"})
    told = client.responses.create(
        model=target.model, input=said, tools=[FLAT_TOOL], temperature=0, max_output_tokens=SHORT
    )
    strict(told)
    assert told.output


def test_speculation_is_counted_in_the_usage(client: OpenAI, target: Target) -> None:
    completion = client.chat.completions.create(
        model=TINY,
        messages=ASKED,
        temperature=0,
        max_tokens=SHORT,
        extra_body={"spec_type": "draft-mtp", "spec_draft_model": DRAFT, "spec_n_max": 3},
    )
    strict(completion)
    assert completion.usage and completion.usage.completion_tokens_details
    details = completion.usage.completion_tokens_details
    assert (details.accepted_prediction_tokens or 0) + (details.rejected_prediction_tokens or 0) > 0
    speculation = (completion.model_extra or {})["geniex"]["speculation"]
    assert speculation["types"] == ["draft-mtp"]


def test_the_asynchronous_client_asks_side_by_side(target: Target) -> None:
    async def ask(client: AsyncOpenAI) -> str:
        stream = await client.chat.completions.create(
            model=target.model, messages=ASKED, temperature=0, max_tokens=SHORT, stream=True
        )
        return text_of([strict(chunk) async for chunk in stream])

    async def say(client: AsyncOpenAI) -> str:
        response = await client.responses.create(
            model=target.model, input=QUESTION, temperature=0, max_output_tokens=SHORT
        )
        text: str = strict(response).output_text
        return text

    async def all_at_once() -> list[str]:
        async with AsyncOpenAI(
            base_url=target.base_url, api_key="none", max_retries=0, timeout=PATIENCE
        ) as client:
            listed = [strict(model) async for model in client.models.list()]
            assert target.model in {model.id for model in listed}
            return await asyncio.gather(*(f(client) for f in (ask, say) * 3))

    texts = asyncio.run(all_at_once())
    assert all(texts)
    if target.answer is not None:
        assert set(texts) == {target.answer}


def test_a_client_that_stops_reading_is_let_go(client: OpenAI, target: Target) -> None:
    stream = client.chat.completions.create(
        model=target.model, messages=ASKED, max_tokens=2000, stream=True
    )
    next(iter(stream))
    stream.close()
    assert client.models.list().data


@pytest.mark.parametrize(
    ("fields", "kind", "code"),
    [
        pytest.param({"model": "no/such"}, openai.NotFoundError, "model_not_found", id="model"),
        pytest.param(
            {"messages": [{"role": "user", "content": "word " * 9000}]},
            openai.BadRequestError,
            "context_length_exceeded",
            id="too long",
        ),
        pytest.param(
            {"extra_body": {"spec_type": "draft-mtp", "spec_draft_model": "no/draft"}},
            openai.BadRequestError,
            "draft_model_not_found",
            id="draft",
        ),
        pytest.param(
            {"modalities": ["audio"]}, openai.BadRequestError, "unsupported_parameter", id="field"
        ),
        pytest.param({"temperature": -1}, openai.BadRequestError, "invalid_value", id="value"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_errors_are_of_the_client_s_classes(
    live_server: Any,
    fields: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str,
    stream: bool,
) -> None:
    with Target(live_server.base_url, TINY).client() as client:
        request: dict[str, Any] = {"model": TINY, "messages": ASKED, "stream": stream, **fields}
        with pytest.raises(kind) as caught:
            client.chat.completions.create(**request)
    assert caught.value.code == code
    assert caught.value.request_id
