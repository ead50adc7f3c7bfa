"""A bundle answers through the server as a GGUF does."""

import json
import threading
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletion

from geniex_runtimes.options import SIMULATOR
from tests.geniex.qairt.conftest import CONTEXT, MODEL

FRANCE, PARIS = "What is the capital of France?", "The capital of France is Paris."


def ask(client: OpenAI, *said: str, **fields: Any) -> ChatCompletion:
    """An answer to a talk, greedily unless `fields` say otherwise; `said` begins with the user."""
    roles = ("user", "assistant")
    messages: Any = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    how = {"temperature": 0, "max_completion_tokens": 64, **fields}
    answer: ChatCompletion = client.chat.completions.create(model=MODEL, messages=messages, **how)
    return answer


def text(answer: ChatCompletion, choice: int = 0) -> str:
    return answer.choices[choice].message.content or ""


def geniex(answer: ChatCompletion) -> Any:
    return (answer.model_extra or {})["geniex"]


def test_an_answer(client: OpenAI) -> None:
    answer = ask(client, FRANCE)
    assert (text(answer), answer.choices[0].finish_reason) == (PARIS, "stop")
    told = geniex(answer)
    assert (told["runtime"], told["compute"], told["devices"]) == ("qairt", "npu", [SIMULATOR])
    assert (told["context_length"], told["warnings"]) == (CONTEXT, [])
    assert answer.usage is not None and answer.usage.completion_tokens > 3


def test_a_stream_is_the_same_answer(client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Say it in many letters."}]
    how: Any = {"model": MODEL, "messages": messages, "temperature": 0}
    whole = client.chat.completions.create(**how)
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(stream=True, **how)
        if chunk.choices
    ]
    assert "".join(pieces) == whole.choices[0].message.content
    # characters of several bytes come whole
    assert "茶" in "".join(pieces) and "�" not in "".join(pieces)
    assert len([piece for piece in pieces if piece]) > 3


def test_stop_strings(client: OpenAI) -> None:
    answer = ask(client, FRANCE, stop=[" Paris", "!"])
    assert (text(answer), answer.choices[0].finish_reason) == ("The capital of France is", "stop")


def test_the_longest_answer_is_told(client: OpenAI) -> None:
    answer = ask(client, "Count.", max_completion_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None and answer.usage.completion_tokens == 5


def test_two_turns_and_what_was_kept_of_the_first(client: OpenAI) -> None:
    met = text(ask(client, "My name is Ada."))
    answer = ask(client, "My name is Ada.", met, "What is my name?")
    assert "Ada" in text(answer)
    details = answer.usage.prompt_tokens_details if answer.usage else None
    assert details is not None and (details.cached_tokens or 0) > 10


def test_seeds(client: OpenAI) -> None:
    how: Any = {"model": MODEL, "prompt": "Colours:", "temperature": 1, "max_tokens": 8}
    seeds = (7, 7, 8, 9)
    answers = [client.completions.create(seed=seed, **how).choices[0].text for seed in seeds]
    assert answers[0] == answers[1]
    assert len(set(answers)) > 1


def test_several_choices(client: OpenAI) -> None:
    answer = ask(client, FRANCE, n=2)
    assert [text(answer, choice) for choice in (0, 1)] == [PARIS, PARIS]


def test_logprobs(client: OpenAI) -> None:
    answer = ask(client, FRANCE, logprobs=True, top_logprobs=2)
    found = answer.choices[0].logprobs
    tokens = found.content if found is not None else None
    assert tokens and "".join(token.token for token in tokens) == PARIS
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)


def test_a_grammar(client: OpenAI) -> None:
    answer = ask(client, FRANCE, extra_body={"grammar_string": 'root ::= "yes" | "no"'})
    assert text(answer) in ("yes", "no")


def test_json(client: OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    assert json.loads(text(ask(client, FRANCE, response_format=form)))["a"] in (1, 2)


def test_a_required_tool_is_called(client: OpenAI) -> None:
    parameters = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}}
    weather = {"name": "weather", "parameters": {**parameters, "required": ["city"]}}
    tools = [{"type": "function", "function": weather}]
    answer = ask(client, FRANCE, tools=tools, tool_choice="required")
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function" and json.loads(call.function.arguments) == {"city": "Paris"}


def test_what_cannot_be_is_ignored_with_one_warning_each(client: OpenAI) -> None:
    ignored = {"spec_type": "draft-mtp", "spec_draft_model": "org/nowhere"}
    ignored |= {"compute": "gpu", "nctx": 4096}  # type: ignore[dict-item]
    answer = ask(client, FRANCE, extra_body=ignored)
    assert text(answer) == PARIS
    warnings = geniex(answer)["warnings"]
    for word in ("speculative decoding is only supported", "ignoring device='gpu'", "--nctx 4096"):
        assert sum(word in warning for warning in warnings) == 1
    assert len(warnings) == 3
    assert geniex(ask(client, FRANCE))["warnings"] == []


def test_a_prompt_that_is_too_long(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as caught:
        ask(client, "word " * 2 * CONTEXT)
    assert caught.value.code == "context_length_exceeded"
    assert text(ask(client, FRANCE)) == PARIS


def test_a_client_that_leaves_frees_the_model(client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Count."}]
    with client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, stream=True
    ) as stream:
        next(iter(stream))
    # an answer that nobody hears would count until the context is full
    assert text(ask(client, FRANCE)) == PARIS


def test_clients_wait_for_each_other(client: OpenAI) -> None:
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(text(ask(client, FRANCE)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [PARIS] * 3
