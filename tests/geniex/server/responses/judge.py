"""What the tests of responses share: scripts, and a judge of what is answered."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent

from geniex.server.residents import Resident
from geniex_runtimes.contract import GenerationRequest
from geniex_runtimes.fake import Script
from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.door import Door, Runtime

THINKS = Script(("<think>", "Let me ", "see.", "</think>", "\n\n", "It is ", "18."))
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
CALLS = Script(
    (
        "Let me look.\n",
        '<tool_call>\n{"name": "weather", ',
        '"arguments": {"city": ',
        '"Rome"}}\n</tool_call>\n<tool_call>\n',
        '{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    )
)
QWEN = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> call as "
    '<tool_call>{"name": ..., "arguments": ...}</tool_call>{% endif %}'
    "{% for message in messages %}{% if message.role == 'tool' %}<|result|>{% else %}"
    "<|{{ message.role }}|>{% endif %}{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>"
    "{% endfor %}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class Judge:
    """Asks a door, and holds what it answers to the official client's types."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def ask(self, **fields: Any) -> Any:
        """The response, an official one."""
        response = self.post(**fields)
        assert response.status_code == 200, response.text
        return strictly(Response, response.content)

    def stream(self, **fields: Any) -> list[Any]:
        """The events of a stream, official ones."""
        response = self.post(**fields, stream=True)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return [strictly(ResponseStreamEvent, data) for data in _data(response.text)]

    def post(self, **fields: Any) -> Any:
        """What is answered, whatever it is."""
        return self._door.post(**fields)

    def send(self, body: str) -> Any:
        """What is answered to a body as it stands."""
        headers = {"content-type": "application/json"}
        return self._door.client.post("/v1/responses", content=body, headers=headers)

    def refused(self, **fields: Any) -> dict[str, Any]:
        """The error of a request that is to be refused."""
        return self._door.refused(**fields)

    @property
    def residents(self) -> list[Resident]:
        """What the server has in memory."""
        return self._door.state.pool.residents()

    @property
    def asked(self) -> GenerationRequest:
        """What the model was asked last."""
        return self._door.runtime.asked

    @property
    def prompt(self) -> str:
        """The text of the prompt that the model has read last."""
        return self._door.runtime.prompt


def _data(text: str) -> Iterator[str]:
    """The data of each event, whose name is checked to be its type."""
    for block in filter(None, text.split("\n\n")):
        name, data = block.split("\n")
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
        yield data.removeprefix("data: ")


def over(*scripts: Script, template: str = QWEN, **options: Any) -> pytest.MarkDecorator:
    """Run a test over these scripts."""
    runtime = Runtime(*scripts, chat_template=template, **options)
    return pytest.mark.parametrize("door", [pytest.param(runtime, id="scripts")], indirect=True)
