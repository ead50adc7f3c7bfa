"""Chat completions and completions of a real model: the built-in pair on llama.cpp."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import jsonschema
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from starlette.testclient import TestClient

from geniex.config import Settings
from geniex.server.app import build_app
from geniex.server.pool import Pool, PoolOptions
from geniex.server.state import ServerState
from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.door import options_of

MODEL, DRAFT = "geniex/tiny-chat:Q8_0", "geniex/tiny-chat-draft:Q8_0"
PARIS = "The capital of France is Paris."
MTP = {"spec_type": "draft-mtp", "spec_draft_model": DRAFT, "spec_n_max": 3}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "size": {"type": "integer"}},
    "required": ["city", "size"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server over the built-in models."""
    settings = Settings(tmp_path_factory.mktemp("data"))
    pool = Pool(settings, PoolOptions(slots=2))
    app = build_app(ServerState(settings, options_of(), pool))
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


def body(text: str = "What is the capital of France?", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def ask(client: TestClient, **fields: Any) -> ChatCompletion:
    # ASCII, since only so half a character can be sent
    headers = {"content-type": "application/json"}
    content = json.dumps(body(**fields))
    response = client.post("/v1/chat/completions", content=content, headers=headers)
    assert response.status_code == 200, response.text
    completion: ChatCompletion = strictly(ChatCompletion, response.content)
    return completion


def stream(client: TestClient, **fields: Any) -> list[ChatCompletionChunk]:
    response = client.post("/v1/chat/completions", json=body(stream=True, **fields))
    assert response.status_code == 200, response.text
    *data, done = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    return [strictly(ChatCompletionChunk, text) for text in data]


def said(answer: ChatCompletion) -> str:
    return answer.choices[0].message.content or ""


def told(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def geniex(answer: ChatCompletion) -> Any:
    return (answer.model_extra or {})["geniex"]


@pytest.mark.parametrize("fields", [{}, MTP], ids=["plain", "mtp"])
def test_whole_and_streamed_say_the_same(client: TestClient, fields: dict[str, Any]) -> None:
    assert said(ask(client, **fields)) == told(stream(client, **fields)) == PARIS


def test_the_tutorials_body_gives_an_answer_and_draft_counts(client: TestClient) -> None:
    answer = ask(
        client,
        text="Hello! Briefly introduce yourself.",
        model=MODEL,
        **MTP,
        nctx=8192,
        max_completion_tokens=2048,
        temperature=0.8,
        top_p=0.95,
        stream=False,
    )
    usage = answer.usage
    assert said(answer)
    assert usage is not None and usage.completion_tokens_details is not None
    accepted = usage.completion_tokens_details.accepted_prediction_tokens or 0
    rejected = usage.completion_tokens_details.rejected_prediction_tokens or 0
    # fresh contexts try drafts at first, whatever they gain on this machine
    assert accepted + rejected > 0
    speculation = geniex(answer)["speculation"]
    assert speculation["types"] == ["draft-mtp"]
    assert speculation["draft_model"] == DRAFT
    assert (speculation["accepted"], speculation["rejected"]) == (accepted, rejected)


def test_a_seed_draws_the_same_again_and_choices_draw_differently(client: TestClient) -> None:
    fields: dict[str, Any] = {"text": "Tell me a story.", "temperature": 1.5, "n": 4, "seed": -5}
    one, other = (
        [choice.message.content for choice in ask(client, **fields).choices] for _ in range(2)
    )
    assert one == other
    assert len(set(one)) > 1


def test_further_choices_find_the_prompt_evaluated(client: TestClient) -> None:
    usage = ask(client, n=2, max_tokens=1).usage
    single = ask(client, max_tokens=1).usage
    assert usage is not None and single is not None
    assert usage.prompt_tokens == single.prompt_tokens
    assert usage.completion_tokens == 2


def test_logprobs_add_up_to_the_content(client: TestClient) -> None:
    answer = ask(client, logprobs=True, top_logprobs=3)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert b"".join(bytes(entry.bytes or ()) for entry in logprobs.content) == PARIS.encode()
    for entry in logprobs.content:
        assert len(entry.top_logprobs) == 3
        # greedy: the likeliest is taken
        assert entry.logprob == entry.top_logprobs[0].logprob <= 0
    chunks = stream(client, logprobs=True, top_logprobs=3)
    streamed = [
        entry
        for chunk in chunks
        for choice in chunk.choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content or ()
    ]
    assert [entry.token for entry in streamed] == [entry.token for entry in logprobs.content]


@pytest.mark.parametrize("fields", [{}, MTP, {"tools": [TOOL]}, {"logprobs": True}], ids=str)
def test_what_is_made_beyond_a_stop_is_not_counted(
    client: TestClient, fields: dict[str, Any]
) -> None:
    """The engine is some tokens ahead of who looks for stops, now more and now fewer."""
    logprobs = ask(client, logprobs=True).choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    said = list(accumulate(entry.token for entry in logprobs.content))
    whole = next(count for count, text in enumerate(said, 1) if "France" in text)
    for _ in range(4):
        usage = ask(client, stop=["France"], **fields).usage
        assert usage is not None and usage.completion_tokens == whole


def test_a_bias_bans_a_token(client: TestClient) -> None:
    tokens = client.post("/tokenize", json={"content": PARIS}).json()["tokens"]
    assert not said(ask(client, logit_bias={str(tokens[0]): -100})).startswith("The")


def test_a_bias_of_a_token_that_is_none_is_refused(client: TestClient) -> None:
    response = client.post("/v1/chat/completions", json=body(logit_bias={"999999": 1}))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "logit_bias"


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_is_none_is_named(client: TestClient, stream: bool) -> None:
    fields = body(grammar_string="root = 5", stream=stream)
    response = client.post("/v1/chat/completions", json=fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "grammar_string"


def test_an_answer_is_held_to_a_schema(client: TestClient) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
    answer = ask(client, response_format=form, temperature=1, seed=3, max_tokens=200)
    jsonschema.validate(json.loads(said(answer)), SCHEMA)
    assert told(stream(client, response_format=form, seed=3, max_tokens=200))


def test_an_answer_is_a_json_object(client: TestClient) -> None:
    answer = ask(client, response_format={"type": "json_object"}, max_tokens=300)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(said(answer)), dict)
    assert said(answer).startswith("{")


def test_a_keyword_that_cannot_be_held_to_is_named(client: TestClient) -> None:
    schema = {"type": "object", "patternProperties": {"^x": {}}, "if": {}}
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    for fields in ({"response_format": form}, {"response_format": form, "stream": True}):
        response = client.post("/v1/chat/completions", json=body(**fields))
        error = response.json()["error"]
        assert response.status_code == 400
        assert "patternProperties" in error["message"] or "`if`" in error["message"]


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}]
)
def test_a_call_that_is_required_is_made_and_fits(client: TestClient, choice: Any) -> None:
    answer = ask(client, tools=[TOOL], tool_choice=choice, max_tokens=200).choices[0]
    assert answer.finish_reason == "tool_calls"
    assert answer.message.tool_calls
    call = answer.message.tool_calls[0]
    assert call.type == "function"
    assert call.function.name == "weather"
    jsonschema.validate(json.loads(call.function.arguments), SCHEMA)


def test_a_chat_only_evaluates_what_is_new(client: TestClient) -> None:
    rules = "You are a guide in a museum of capitals. Answer in one sentence, and never guess. "
    messages: list[dict[str, Any]] = [{"role": "system", "content": rules * 2}]
    before = 0
    for question in ("Hello!", "What is the capital of France?", "And of Italy?", "Thank you."):
        messages.append({"role": "user", "content": question})
        answer = client.post("/v1/chat/completions", json=body(messages=messages)).json()
        usage = answer["usage"]
        # what an answer begins with in the prompt is written otherwise in the history
        assert usage["prompt_tokens_details"]["cached_tokens"] >= before - 8
        before = usage["prompt_tokens"]
        messages.append(answer["choices"][0]["message"])


def test_a_prompt_too_long_then_a_short_one(client: TestClient) -> None:
    long = body("word " * 3000, nctx=512)
    for fields in ({}, {"stream": True}):
        response = client.post("/v1/chat/completions", json={**long, **fields})
        error = response.json()["error"]
        assert response.status_code == 400
        assert error["code"] == "context_length_exceeded"
        assert "maximum context length is 512 tokens" in error["message"]
    assert said(ask(client, nctx=512, max_tokens=100_000)) == PARIS


def test_an_image_is_left_out_and_speculation_goes_on(client: TestClient) -> None:
    content = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "What is the capital of France?"},
    ]
    with_image = ask(client, messages=[{"role": "user", "content": content}], **MTP)
    assert said(with_image) == PARIS
    assert any("image" in warning for warning in geniex(with_image)["warnings"])
    after = ask(client, **MTP)
    assert geniex(after)["warnings"] == []
    assert geniex(after)["speculation"]["types"] == ["draft-mtp"]


def test_half_a_character_is_no_trouble(client: TestClient) -> None:
    assert said(ask(client, text="What is the capital of France?\ud83d"))


def test_a_completion_goes_on_from_text_and_from_tokens(client: TestClient) -> None:
    text = "The capital of France is"
    tokens = client.post("/tokenize", json={"content": text, "add_special": True}).json()["tokens"]
    answers = [
        client.post("/v1/completions", json={"prompt": prompt, "temperature": 0, **fields}).json()
        for prompt in (text, tokens)
        for fields in ({}, MTP)
    ]
    assert {answer["choices"][0]["text"] for answer in answers} == {" Paris."}


def test_answers_side_by_side_are_those_given_alone(client: TestClient) -> None:
    questions = (
        "What is the capital of France?",
        "What is the capital of Italy?",
        "What is speculative decoding?",
        "Hello!",
        "Thank you.",
        "Tell me a story.",
    )
    alone = [said(ask(client, text=text)) for text in questions]
    modes: list[dict[str, Any]] = [{}, MTP]
    with ThreadPoolExecutor(len(questions)) as threads:
        for mode in modes:

            def streamed(text: str, fields: dict[str, Any] = mode) -> str:
                return told(stream(client, text=text, **fields))

            assert [*threads.map(streamed, questions)] == alone
