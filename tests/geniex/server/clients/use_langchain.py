"""What langchain-openai does with a server. Arguments: base address, model, known answer."""

import asyncio
import sys
from typing import Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

QUESTION = "What is the capital of France?"


class Weather(BaseModel):
    """Look up the weather."""

    city: Literal["Rome", "Oslo"]


class Fact(BaseModel):
    """What is asked for."""

    country: Literal["France", "Italy"]


def main(base_url: str, model: str, answer: str) -> None:
    """Ask in every way, through either API, and check what comes."""
    chats = [
        ChatOpenAI(
            base_url=base_url,
            api_key=SecretStr("none"),
            model=model,
            temperature=0,
            max_completion_tokens=60,
            max_retries=0,
            timeout=120,
            use_responses_api=responses,
        )
        for responses in (False, True)
    ]
    for chat in chats:
        text(chat, answer)
        tools(chat)
        fact = chat.with_structured_output(Fact, method="json_schema").invoke(QUESTION)
        assert isinstance(fact, Fact), fact
    # one event loop for all: its connections are kept for the next use
    asyncio.run(side_by_side(chats * 2, answer))


def text(chat: ChatOpenAI, answer: str) -> None:
    """Whole and streamed."""
    whole = chat.invoke(QUESTION)
    assert whole.text, whole
    assert answer in ("", whole.text), whole
    assert whole.usage_metadata, whole
    assert whole.usage_metadata["output_tokens"] > 0, whole
    pieces = list(chat.stream(QUESTION))
    assert len(pieces) > 2, pieces
    assert answer in ("", "".join(piece.text for piece in pieces)), pieces


def tools(chat: ChatOpenAI) -> None:
    """A call, its result, and what is said then."""
    asked = HumanMessage(QUESTION)
    bound = chat.bind_tools([Weather], tool_choice="required", parallel_tool_calls=False)
    called = bound.invoke([asked])
    assert isinstance(called, AIMessage)
    (call,) = called.tool_calls
    assert call["name"] == "Weather", call
    Weather.model_validate(call["args"])
    result = ToolMessage("18 degrees", tool_call_id=call["id"])
    told = chat.bind_tools([Weather]).invoke([asked, called, result])
    assert isinstance(told, AIMessage)
    assert told.text or told.tool_calls, told


async def side_by_side(chats: list[ChatOpenAI], answer: str) -> None:
    """Several at once."""
    for told in await asyncio.gather(*(chat.ainvoke(QUESTION) for chat in chats)):
        assert answer in ("", told.text), told


if __name__ == "__main__":
    main(*sys.argv[1:])
