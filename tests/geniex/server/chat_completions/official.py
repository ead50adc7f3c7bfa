"""Chat completions as the official client's types have them."""

from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.door import Door

MODEL = "geniex/tiny-chat:Q8_0"
DRAFT = "geniex/tiny-chat-draft:Q8_0"
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
# the tokens of the greeting: a byte each, the end of its message one, and the one at the beginning
PROMPT_TOKENS = len("<|user|>Hi<|assistant|>") + 2


def answered(door: Door, **fields: Any) -> ChatCompletion:
    """A completion, held to the official type."""
    response = door.post(**fields)
    assert response.status_code == 200, response.text
    completion: ChatCompletion = strictly(ChatCompletion, response.content)
    return completion


def chunks(door: Door, **fields: Any) -> list[ChatCompletionChunk]:
    """The chunks of a stream that ends well, each held to the official type."""
    *data, done = door.events(**fields)
    assert done == "[DONE]"
    return [strictly(ChatCompletionChunk, text) for text in data]


def content(streamed: list[ChatCompletionChunk]) -> str:
    """The content of a stream's first choice."""
    return "".join(
        choice.delta.content or ""
        for chunk in streamed
        for choice in chunk.choices
        if choice.index == 0
    )


def geniex(told: ChatCompletion | ChatCompletionChunk) -> Any:
    """The object of our own."""
    return (told.model_extra or {})["geniex"]
