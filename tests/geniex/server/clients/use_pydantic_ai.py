"""What pydantic-ai does with a server. Arguments: base address, model, known answer or nothing."""

import asyncio
import sys
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

QUESTION = "What is the capital of France?"
SETTINGS = ModelSettings(temperature=0, max_tokens=60, timeout=120)


class Fact(BaseModel):
    """What is asked for."""

    country: Literal["France", "Italy"]


async def main(base_url: str, model: str, answer: str) -> None:
    """Ask in every way, through either API, and check what comes."""
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        await use(kind(model, provider=provider), answer)


async def use(model: Model, answer: str) -> None:
    """Whole, streamed, structured, and a conversation that is sent back."""
    agent = Agent(model, model_settings=SETTINGS)
    whole = await agent.run(QUESTION)
    assert whole.output, whole
    assert answer in ("", whole.output), whole
    assert whole.usage.output_tokens > 0, whole
    async with agent.run_stream(QUESTION) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert len(pieces) > 2, pieces
    assert answer in ("", "".join(pieces)), pieces
    native = Agent(model, output_type=NativeOutput(Fact), model_settings=SETTINGS)
    assert isinstance((await native.run(QUESTION)).output, Fact)
    # this way of asking forces a call
    tool = Agent(model, output_type=ToolOutput(Fact), model_settings=SETTINGS)
    structured = await tool.run(QUESTION)
    assert isinstance(structured.output, Fact), structured
    again = await agent.run(QUESTION, message_history=structured.all_messages())
    assert again.output, again


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
