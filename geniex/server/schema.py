"""The objects of answers, as the OpenAPI document describes them.

They are written by hand and not through these models, since there is one for every token; tests
hold them to the official client's types.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field


class PromptTokensDetails(BaseModel):
    """Of the prompt's tokens, those that were found evaluated."""

    cached_tokens: int


class CompletionTokensDetails(BaseModel):
    """Of the answer's tokens, those of reasoning; and the draft tokens that speculation proposed.

    Accepted ones are part of the answer, rejected ones are not.
    """

    reasoning_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class UsageObject(BaseModel):
    """Counts in tokens; `prompt_tokens` is the whole prompt, cached or not."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class Timings(BaseModel):
    """Times in seconds, speeds in tokens per second."""

    total_time: float
    ttft: float
    prompt_time: float
    decode_time: float
    prompt_speed: float
    decode_speed: float


class SpeculationObject(BaseModel):
    """How speculation went: `state` is on, reduced or off, `reason` says why it is not on."""

    types: list[str]
    draft_model: str | None
    choice: str | None
    state: Literal["on", "reduced", "off"]
    reason: str | None
    steps: int
    proposed: int
    accepted: int
    rejected: int
    accepted_at: list[int]
    tokens_per_step: float
    draft_time: float
    verify_time: float


class GeniexObject(BaseModel):
    """What ran, how fast, how it speculated (null: nobody asked), and what is to be said."""

    runtime: str
    compute: Literal["cpu", "gpu", "npu", "hybrid"]
    devices: list[str]
    context_length: int
    kv_type: str | None
    stop_reason: str
    timings: Timings
    speculation: SpeculationObject | None
    warnings: list[str]


class ToolCallFunction(BaseModel):
    """A function and its arguments, as JSON text."""

    name: str
    arguments: str


class ToolCallObject(BaseModel):
    """A call that the model made."""

    id: str
    type: Literal["function"]
    function: ToolCallFunction


class ChatMessage(BaseModel):
    """What the model said; `reasoning_content` and `tool_calls` are there where it has them."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallObject] | None = None


class TopLogprob(BaseModel):
    """A token that could have come."""

    token: str
    bytes: list[int]
    logprob: float


class LogprobEntry(TopLogprob):
    """A token of the answer, with others that could have come."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """The tokens of the content."""

    content: list[LogprobEntry]
    refusal: None


class ChatChoice(BaseModel):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletionObject(BaseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int = Field(description="Seconds since 1970.")
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: UsageObject
    geniex: GeniexObject


class CompletionLogprobs(BaseModel):
    """The tokens of a text, in columns; offsets are characters of the choice's text."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One text."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]


class CompletionObject(BaseModel):
    """A completion of a text."""

    id: str
    object: Literal["text_completion"]
    created: int = Field(description="Seconds since 1970.")
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: UsageObject
    geniex: GeniexObject


class EmbeddingEntry(BaseModel):
    """One vector: numbers, or the base64 of little-endian 32-bit floats."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Counts in tokens."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsObject(BaseModel):
    """A vector for each input, in their order."""

    object: Literal["list"]
    data: list[EmbeddingEntry]
    model: str
    usage: EmbeddingUsage


# an item is one event, as OpenAPI 3.2 describes a sequence and FastAPI its own streams
EVENT_STREAM: dict[str, Any] = {
    "text/event-stream": {
        "itemSchema": {
            "description": "With `stream: true`: server-sent events, whose data is JSON.",
            "type": "object",
            "required": ["data"],
            "properties": {"data": {"type": "string"}, "event": {"type": "string"}},
        }
    }
}


def answers_with(
    model: type[BaseModel], *, streams: bool = True
) -> dict[int | str, dict[str, Any]]:
    """The entry of a route's good answer in the OpenAPI document."""
    entry: dict[str, Any] = {"model": model, "description": "The answer"}
    if streams:
        entry["content"] = EVENT_STREAM
    return {200: entry}
