"""The route of chat completions over a scripted runtime."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.geniex.server.door import GREETING, Door, Runtime, opened

PATH = "/v1/chat/completions"
# shows what it is told, and calls tools as Qwen does
TEMPLATE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> call as "
    '<tool_call>{"name": ..., "arguments": ...}</tool_call>{% endif %}'
    "{% if enable_thinking is defined %}[thinks {{ enable_thinking }}]{% endif %}"
    "{% if reasoning_effort is defined %}[effort {{ reasoning_effort }}]{% endif %}"
    "{% if mood is defined %}[mood {{ mood }}]{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>"
    "{% endfor %}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

Over = Callable[..., Door]


@pytest.fixture(scope="module")
def grammars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the operator has set for grammars."""
    return tmp_path_factory.mktemp("grammars")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory, grammars: Path) -> Iterator[Door]:
    """A server that greets, one for the module: starting a template's process takes a while."""
    runtime = Runtime(chat_template=TEMPLATE)
    data = tmp_path_factory.mktemp("data")
    with opened(runtime, data, PATH, {"messages": GREETING}, grammar_dir=grammars) as door:
        yield door


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Over]:
    """Makes servers over other scripts, and other options of the runtime.

    Without a template, unless one is given: its process would take a while to start.
    """
    with ExitStack() as stack:

        def make(*scripts: Any, **options: Any) -> Door:
            runtime = Runtime(*scripts, **{"chat_template": None, **options})
            return stack.enter_context(
                opened(runtime, tmp_path / "data", PATH, {"messages": GREETING})
            )

        yield make
