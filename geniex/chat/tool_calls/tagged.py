"""Calls in tags, as Hermes and Qwen write them: `<tool_call>{"name": ..., ...}</tool_call>`.

Also what Qwen 3 Coder writes inside the tags, or without them, and Llama 3.1's custom functions:

    <function=weather><parameter=city>Paris</parameter></function>
    <function=weather>{"city": "Paris"}</function>
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geniex.chat.gbnf.rules import Rules
from geniex.chat.tool_calls.call_object import (
    object_calls,
    one_or_more,
    parsed,
    read_call,
    stream_value,
)
from geniex.chat.tool_calls.reader import CallReader, Reading
from geniex.chat.tools import Tool

_OPEN, _CLOSE, _FUNCTION = "<tool_call>", "</tool_call>", "<function="
_PARAMETER, _PARAMETER_END, _FUNCTION_END = "<parameter=", "</parameter>", "</function>"
_MAX_NAME = 200
_MAX_VALUE = 1_000_000


@dataclass(frozen=True, slots=True)
class Tagged:
    """Hermes, Qwen 2.5, 3 and 3 Coder, SmolLM3, and many more.

    Calls are enforced as JSON; what was taught the form with `<function=` is left free to use it.
    """

    functions: bool = False
    marks: Sequence[str] = (_OPEN, _FUNCTION)
    starts: Sequence[str] = ()
    kept: Sequence[str] = (_OPEN, _CLOSE)

    @property
    def enforced(self) -> str:
        return "" if self.functions else _OPEN

    def read(self, reader: CallReader, mark: str) -> Reading:
        if mark == _FUNCTION:
            return (yield from _read_function(reader))
        char = yield from reader.skip()
        if char == "{":
            found = yield from read_call(reader, marked=True)
        else:
            found = yield from reader.literal(_FUNCTION)
            found = found and (yield from _read_function(reader))
        if found:
            yield from _pass(reader, _CLOSE)
        return found

    def grammar(self, rules: Rules, arguments: Mapping[str, str], *, several: bool) -> str:
        call = object_calls(rules, arguments, f"{_OPEN}\n{{", after=f"}}\n{_CLOSE}")
        return one_or_more(call, "\n", several=several)


def _pass(reader: CallReader, tag: str) -> Reading:
    """Pass a closing tag, and blank space before it; nothing where it does not come."""
    place = reader.place
    yield from reader.skip()
    if (yield from reader.literal(tag)):
        return True
    reader.back_to(place)
    return False


def _read_function(reader: CallReader) -> Reading:
    """Read a call behind `<function=`."""
    name = yield from reader.until(">", _MAX_NAME)
    if name is None or name not in reader.tools:
        return False
    reader.begin(name)
    if (yield from reader.skip()) == "{":
        yield from stream_value(reader)
    else:
        yield from _read_parameters(reader, reader.tools[name])
    yield from _pass(reader, _FUNCTION_END)
    reader.end()
    return True


def _read_parameters(reader: CallReader, tool: Tool) -> Reading:
    before = "{"
    while (yield from _pass(reader, _PARAMETER)):
        key = yield from reader.until(">", _MAX_NAME)
        value = None if key is None else (yield from reader.until(_PARAMETER_END, _MAX_VALUE))
        if key is None or value is None:
            break
        reader.arguments(
            f"{before}{json.dumps(key, ensure_ascii=False)}: {_value(tool, key, value)}"
        )
        before = ", "
    if before != "{":
        reader.arguments("}")
    return True


def _value(tool: Tool, key: str, text: str) -> str:
    """The JSON of a parameter's text: text where the schema says so, else JSON where it is that."""
    text = text.removeprefix("\n").removesuffix("\n")
    properties = tool.parameters.get("properties")
    schema = properties.get(key) if isinstance(properties, Mapping) else None
    if not (isinstance(schema, Mapping) and schema.get("type") == "string"):
        try:
            return json.dumps(parsed(text), ensure_ascii=False)
        except ValueError:
            pass  # not JSON, so it is meant as text
    return json.dumps(text, ensure_ascii=False)
