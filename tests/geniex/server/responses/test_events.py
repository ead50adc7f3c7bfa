"""`POST /v1/responses`: objects and events as the official client's types have them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import ResponseErrorEvent

from geniex.server import sse
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import Script
from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.door import HELLO, Runtime, opened, wait_for
from tests.geniex.server.responses.judge import CALLS, QWEN, THINKS, WEATHER, Judge, over


def kinds(events: list[Any]) -> list[str]:
    """The types of events, deltas that follow each other as one."""
    names = [event.type.removeprefix("response.") for event in events]
    return [n for at, n in enumerate(names) if at == 0 or n != names[at - 1] or "delta" not in n]


def test_a_response_is_whole(door: Judge) -> None:
    response = door.ask(metadata={"trip": "7"}, user="u-1", max_output_tokens=40, temperature=0.5)
    assert response.output_text == HELLO
    assert response.status == "completed"
    assert response.error is response.incomplete_details is None
    assert response.model == "geniex/tiny-chat:Q8_0"
    assert response.metadata == {"trip": "7"}
    assert (response.user, response.max_output_tokens) == ("u-1", 40)
    assert response.temperature == 0.5
    usage = response.usage
    assert usage.output_tokens == 4
    assert usage.total_tokens == usage.input_tokens + 4
    assert response.geniex["runtime"] == "fake"


def test_the_events_of_a_text_come_in_the_official_order(door: Judge) -> None:
    events = door.stream()
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].response.status == "in_progress"


@over(THINKS)
def test_reasoning_is_an_item_of_its_own(door: Judge) -> None:
    events = door.stream(reasoning={"effort": "high", "summary": "auto"})
    assert kinds(events)[2:-1] == [
        *(f"{n}.added" for n in ("output_item", "content_part")),
        "reasoning_text.delta",
        "reasoning_text.done",
        *(f"{n}.done" for n in ("content_part", "output_item")),
        *(f"{n}.added" for n in ("output_item", "content_part")),
        "output_text.delta",
        "output_text.done",
        *(f"{n}.done" for n in ("content_part", "output_item")),
    ]
    thought, said = events[-1].response.output
    assert thought.content[0].text == "Let me see."
    assert said.content[0].text == "It is 18."
    assert events[-1].response.reasoning.effort == "high"
    assert events[-1].response.usage.output_tokens_details.reasoning_tokens > 0


@over(CALLS)
def test_calls_are_items_with_their_arguments_in_pieces(door: Judge) -> None:
    events = door.stream(tools=[WEATHER])
    message, first, second = events[-1].response.output
    assert message.content[0].text.strip() == "Let me look."
    assert [json.loads(call.arguments) for call in (first, second)] == [
        {"city": "Rome"},
        {"city": "Oslo"},
    ]
    assert {first.name, second.name} == {"weather"}
    assert len({first.id, second.id, first.call_id, second.call_id}) == 4
    pieces = [e for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(e.delta for e in pieces if e.item_id == first.id) == first.arguments
    assert "".join(e.delta for e in pieces if e.item_id == second.id) == second.arguments
    assert events[-1].response.tools[0].name == "weather"
    assert events[-1].response.status == "completed"


def bare(value: Any) -> Any:
    """Without what differs between two answers: ids, call ids and times."""
    if isinstance(value, dict):
        changing = ("id", "call_id", "geniex", "usage", "created_at", "completed_at")
        return {name: bare(each) for name, each in value.items() if name not in changing}
    return [bare(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "door",
    [
        pytest.param(Runtime(), id="text"),
        pytest.param(Runtime(THINKS), id="reasoning"),
        pytest.param(Runtime(CALLS, chat_template=QWEN), id="calls"),
        pytest.param(Runtime(Script(())), id="nothing"),
        pytest.param(Runtime(Script(("<think>", "on and on"))), id="thoughts without an end"),
    ],
    indirect=True,
)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"tools": [WEATHER]}, id="with tools"),
        pytest.param({"top_logprobs": 2}, id="with logprobs"),
        pytest.param({"max_output_tokens": 2}, id="cut short"),
    ],
)
def test_a_stream_says_what_the_whole_says(door: Judge, fields: dict[str, Any]) -> None:
    whole = door.ask(**fields)
    events = door.stream(**fields)
    last = events[-1].response
    assert bare(last.to_dict(mode="json")) == bare(whole.to_dict(mode="json"))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == last.output
    for index, item in enumerate(last.output):
        if item.type in ("message", "reasoning"):
            name = "output_text" if item.type == "message" else "reasoning_text"
            deltas = [
                event.delta
                for event in events
                if event.type == f"response.{name}.delta" and event.output_index == index
            ]
            assert "".join(deltas) == item.content[0].text


@over(Script(()))
def test_an_answer_of_no_words_is_an_empty_message(door: Judge) -> None:
    response = door.ask()
    assert [item.type for item in response.output] == ["message"]
    assert response.output_text == ""


def test_a_limit_makes_it_incomplete(door: Judge) -> None:
    response = door.ask(max_output_tokens=2)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.completed_at is None
    assert response.output[0].status == "incomplete"
    assert door.stream(max_output_tokens=2)[-1].type == "response.incomplete"


@over(Script(error=GenerationError("the decoder gave up"), error_after=2))
def test_a_failure_in_the_middle_ends_the_stream_as_failed(door: Judge) -> None:
    events = door.stream()
    assert kinds(events)[-2:] == ["output_item.done", "failed"]
    last = events[-1].response
    assert (last.status, last.error.code) == ("failed", "server_error")
    assert "gave up" in last.error.message
    assert last.output[0].status == "incomplete"
    assert door.post().status_code == 500


@over(Script(prefill_error=GenerationError("no prefill")))
def test_a_failure_before_the_first_event_is_a_status(door: Judge) -> None:
    response = door.post(stream=True)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "no prefill"


def test_a_failure_after_a_ping_is_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "stream", partial(sse.stream, ping_every=0.01))
    slow = Script(prefill_delay=2, prefill_error=GenerationError("no prefill"))
    with opened(Runtime(slow), tmp_path, "/v1/responses", {"input": "Hi"}) as door:
        text = door.post(stream=True).text
    assert text.startswith(": ping\n\n")
    event, data = text.replace(": ping\n\n", "").rstrip("\n").split("\n")
    assert event == "event: error"
    told = strictly(ResponseErrorEvent, data.removeprefix("data: "))
    assert (told.message, told.code) == ("no prefill", "generation_failed")


def test_logprobs_come_with_the_text(door: Judge) -> None:
    response = door.ask(include=["message.output_text.logprobs"], top_logprobs=2)
    entries = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in entries) == HELLO
    assert [len(entry.top_logprobs) for entry in entries] == [2] * 4
    assert response.top_logprobs == 2
    events = door.stream(include=["message.output_text.logprobs"])
    streamed = [e.logprobs for e in events if e.type == "response.output_text.delta"]
    assert [entry.token for listed in streamed for entry in listed] == [e.token for e in entries]
    assert not door.ask().output[0].content[0].logprobs


def test_the_model_reads_the_conversation(door: Judge) -> None:
    door.ask(
        instructions="Be brief.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "How warm is it?"}]},
            {"role": "assistant", "content": "Where?"},
            {"role": "user", "content": "Rome"},
        ],
    )
    prompt = door.prompt
    assert prompt == (
        "<|system|>Be brief.</s><|user|>How warm is it?</s><|assistant|>Where?</s><|user|>Rome</s>"
        "<|assistant|>"
    )


@over(Script(("18 degrees.",)))
def test_the_output_of_a_call_is_read(door: Judge) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "eighteen"}
    response = door.ask(input=[{"role": "user", "content": "Now?"}, call, output], tools=[WEATHER])
    assert response.output_text == "18 degrees."
    prompt = door.prompt
    assert "<tool_call>" in prompt
    assert "eighteen" in prompt


def test_an_image_is_left_out_and_the_response_says_so(door: Judge) -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
    ]
    response = door.ask(input=[{"role": "user", "content": content}])
    assert response.output_text == HELLO
    assert any("image" in warning for warning in response.geniex["warnings"])


def test_what_is_no_unicode_comes_back_replaced(door: Judge) -> None:
    tool = {**WEATHER, "description": "\ud800"}
    response = door.ask(instructions="\ud800", user="\ud800", tools=[tool])
    assert (response.user, response.tools[0].description) == ("?", "?")
    assert door.stream(user="\ud800")[-1].response.user == "?"


def test_what_is_no_json_is_refused(door: Judge) -> None:
    body = '{"input": "Hi", "tools": [{"name": "f", "parameters": {"default": NaN}}]}'
    response = door.send(body)
    assert response.status_code == 400
    assert "NaN" in response.json()["error"]["message"]


def test_a_model_that_may_stay_for_ages_goes_when_another_request_says_so(door: Judge) -> None:
    assert door.ask(keep_alive=1e9).output_text == HELLO
    assert door.ask(keep_alive=0).output_text == HELLO
    wait_for(lambda: not door.residents)
