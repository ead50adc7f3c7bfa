"""What litellm does with a server. Arguments: base address, model, known answer or nothing."""

import json
import sys
from typing import Any

import litellm
from pydantic import BaseModel

# its types are of many providers at once
api: Any = litellm

ASKED = [{"role": "user", "content": "What is the capital of France?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look up the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class Fact(BaseModel):
    """What is asked for."""

    certain: bool


def main(base_url: str, model: str, answer: str) -> None:
    """Ask in every way, and check what comes."""
    common: dict[str, Any] = {"model": f"openai/{model}", "api_base": base_url, "api_key": "none"}
    common |= {"temperature": 0, "max_retries": 0, "timeout": 120}
    chat = {"messages": ASKED, "max_tokens": 60, **common}

    whole = api.completion(**chat)
    assert whole.choices[0].message.content, whole
    assert answer in ("", whole.choices[0].message.content), whole
    assert whole.usage.completion_tokens > 0, whole

    streamed = [chunk.choices[0].delta.content for chunk in api.completion(stream=True, **chat)]
    assert answer in ("", "".join(filter(None, streamed))), streamed

    called = api.completion(tools=[TOOL], tool_choice="required", **chat)
    (call, *_) = called.choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["city"] in ("Rome", "Oslo"), called

    fact = api.completion(response_format=Fact, **chat)
    Fact.model_validate_json(fact.choices[0].message.content)

    said = {"input": "What is the capital of France?", "max_output_tokens": 60, **common}
    response = api.responses(**said)
    assert answer in ("", response.output[0].content[0].text), response

    kinds = [event.type for event in api.responses(stream=True, **said)]
    assert kinds[0] == "response.created", kinds
    assert kinds[-1] in ("response.completed", "response.incomplete"), kinds

    try:
        api.completion(**{**chat, "model": "openai/no/such"})
    except api.NotFoundError as error:
        assert "geniex pull no/such" in str(error), error
    else:
        raise AssertionError("a model that is not here was found")


if __name__ == "__main__":
    main(*sys.argv[1:])
