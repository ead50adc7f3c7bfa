"""Tools for models whose chat template knows none: told in the system prompt, calls as text.

The model is told to answer with a JSON object, `{"name": ..., "arguments": {...}}`, and its earlier
calls are shown to it in this form. A tool's result stands in a message of the user.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from geniex.chat.messages import Message

NOTE = "this model's template knows no tools: they are told in the system prompt"
RESULT_NOTE = "this model's template knows no results of tools: they are told as text"

_PROMPT = """\
You can call these functions. Each line describes one:
{functions}

To call a function, answer with a JSON object and nothing else:
{{"name": "<name of the function>", "arguments": {{<its arguments>}}}}
To call several, write one such object on each line. If no function is needed, answer in words."""


def with_tools(messages: Sequence[Message], tools: Sequence[Mapping[str, object]]) -> list[Message]:
    """The messages with the tools described at the end of the system prompt."""
    functions = "\n".join(
        json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools
    )
    prompt = _PROMPT.format(functions=functions)
    for at, message in enumerate(messages):
        if message.role in ("system", "developer"):
            told = message.with_text(f"{message.text}\n\n{prompt}".lstrip())
            return [*messages[:at], told, *messages[at + 1 :]]
    return [Message("system", prompt), *messages]


def calls_as_text(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with calls as the text that they are, and results as what the user says."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return tuple(_as_text(message, names) for message in messages)


def results_with_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with the results of tools in the message that called them.

    So does Gemma 4 have it: calls, results and what is then said are one turn of the model.
    """
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before is None or before.role != "assistant" or not before.tool_calls:
            joined.append(message)
        elif message.role == "tool":
            name = message.name or names.get(message.tool_call_id or "", "tool")
            joined[-1] = replace(before, results=(*before.results, (name, message.text)))
        elif message.role == "assistant" and before.results and not message.tool_calls:
            said = "\n".join(filter(None, (before.text, message.text)))
            joined[-1] = replace(before, content=said)
        else:
            joined.append(message)
    return tuple(joined)


def _as_text(message: Message, names: Mapping[str, str]) -> Message:
    if message.role == "tool":
        name = message.name or names.get(message.tool_call_id or "")
        head = f"Result of {name}:" if name else "Result:"
        return Message("user", f"{head}\n{message.text}")
    if not message.tool_calls:
        return message
    calls = [
        f'{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.text()}}}'
        for call in message.tool_calls
    ]
    return replace(message, content="\n".join(filter(None, (message.text, *calls))), tool_calls=())
