"""A call as a JSON object: `{"name": ..., "arguments": {...}}`, and the variants that models write.

The members may come in any order, `parameters` in the place of `arguments`, the arguments as JSON
text in a string, and all of it in a member `function`.
"""

import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from geniex.chat.gbnf.rules import Rules, either, quote
from geniex.chat.tool_calls.reader import CallReader, Reading

_NAMES = frozenset({"name", "tool_name"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_OTHERS = frozenset({"id", "type", "index", "tool_call_id"})
_OUTSIDE = re.compile(r'["{}\[\]<]')
_INSIDE = re.compile(r'["\\]')
_SCALAR_END = re.compile(r"[,}\]\s<;]")
_MAX_KEY = 200
_MOST_CALLS = 8  # enforced in one answer


def object_calls(
    rules: Rules,
    arguments: Mapping[str, str],
    before: str = "{",
    key: str = "arguments",
    after: str = "}",
) -> str:
    """A rule for one call as an object, with texts around it."""
    calls = []
    for name, rule in arguments.items():
        head = f'{before}"name": {json.dumps(name)}, "{key}": '
        calls.append(f"{quote(head)} {rule} {quote(after)}")
    return rules.add(either(calls), "call")


def one_or_more(call: str, between: str, *, several: bool) -> str:
    """One call, or several of them with a text between."""
    return f"{call} ({quote(between)} {call}){{0,{_MOST_CALLS - 1}}}" if several else call


def parsed(text: str) -> object:
    """The value of a JSON text. Raises ValueError, also for NaN and Infinity."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class ValueEnd:
    """Finds where a JSON value ends, in a text that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._begun = False
        self._scalar = False

    def scan(self, text: str) -> tuple[int, bool]:
        """How much of the next piece belongs to the value, and whether it ends there.

        A `<` outside of strings ends it as well: it begins a closing tag, not JSON.
        """
        if not text:
            return 0, False
        if not self._begun:
            self._begun = True
            self._scalar = text[0] not in '"{['
        if self._scalar:
            found = _SCALAR_END.search(text)
            return (found.start(), True) if found else (len(text), False)
        at = 0
        while at < len(text):
            if self._in_string:
                at, ended = self._string(text, at)
            else:
                at, ended = self._between(text, at)
            if ended:
                return at, True
        return at, False

    def _string(self, text: str, at: int) -> tuple[int, bool]:
        if self._escaped:
            self._escaped = False
            return at + 1, False
        found = _INSIDE.search(text, at)
        if found is None:
            return len(text), False
        self._in_string = found[0] != '"'
        self._escaped = found[0] == "\\"
        return found.end(), not self._in_string and self._depth == 0

    def _between(self, text: str, at: int) -> tuple[int, bool]:
        found = _OUTSIDE.search(text, at)
        if found is None:
            return len(text), False
        if found[0] == "<":
            return found.start(), True
        if found[0] == '"':
            self._in_string = True
        else:
            self._depth += 1 if found[0] in "{[" else -1
        return found.end(), found[0] in "}]" and self._depth == 0


@dataclass(slots=True)
class _Call:
    """What is known of a call so far; `held` are arguments that came before the name."""

    name: str | None = None
    held: str | None = None
    begun: bool = False


def read_call(reader: CallReader, *, marked: bool) -> Reading:
    """Read an object that is a call of a given tool; False where it is none.

    Without a mark around it (`marked`) a call needs arguments, empty ones at least.
    """
    call = _Call()
    whole = yield from _members(reader, call)
    if call.begun:
        reader.end()
        return True
    if not whole or call.name not in reader.tools or (call.held is None and not marked):
        return False
    reader.begin(call.name)
    reader.arguments(call.held or "")
    reader.end()
    return True


def _members(reader: CallReader, call: _Call) -> Reading:
    """Read an object's members; False where they are not JSON, or no call's."""
    if not (yield from reader.literal("{")):
        return False
    while (yield from reader.skip()) == '"':
        key = yield from _text(reader, _MAX_KEY)
        if key is None or (yield from reader.skip()) != ":":
            return False
        reader.take()
        first = yield from reader.skip()
        if key == "function" and first == "{":
            if not (yield from _members(reader, call)):
                return False
        elif not (yield from _member(reader, call, key, first)):
            return False
        if (yield from reader.skip()) != ",":
            break
        reader.take()
    return (yield from reader.literal("}"))


def _member(reader: CallReader, call: _Call, key: str, first: str) -> Reading:
    if (key in _NAMES or key == "function") and first == '"' and call.name is None:
        call.name = yield from _text(reader, _MAX_KEY)
        return call.name in reader.tools
    if key in _OTHERS or call.begun:
        return (yield from _value(reader)) is not None
    if key not in _ARGUMENTS or call.held is not None:
        return False
    if first == "{" and call.name is not None:
        call.begun = True
        reader.begin(call.name)
        yield from stream_value(reader)
        return True
    value = yield from _value(reader)
    call.held = _arguments(value)
    return call.held is not None


def _arguments(value: str | None) -> str | None:
    """Arguments as they were written: an object, out of a string too; empty for null.

    None for others.
    """
    if value is None or value.startswith("{"):
        return value
    try:
        inner = json.loads(value)
    except ValueError:
        return None
    if inner is None:
        return ""
    text = inner.strip() if isinstance(inner, str) else "-"
    return text if text.startswith("{") or not text else None


def stream_value(reader: CallReader) -> Reading:
    """Pass a JSON value on as arguments while it comes; whether it came to its end."""
    end = ValueEnd()
    while True:
        count, ended = end.scan(reader.rest())
        reader.arguments(reader.take(count))
        if ended:
            return True
        if not (yield from reader.more()):
            return False


def _value(reader: CallReader) -> Generator[None, None, str | None]:
    """The text of a JSON value; None where it does not end."""
    end = ValueEnd()
    pieces: list[str] = []
    while True:
        count, ended = end.scan(reader.rest())
        pieces.append(reader.take(count))
        if ended:
            return "".join(pieces) or None
        if not (yield from reader.more()):
            return None


def _text(reader: CallReader, most: int) -> Generator[None, None, str | None]:
    """The text of a short JSON string; None where it is none."""
    end = ValueEnd()
    pieces: list[str] = []
    while True:
        count, ended = end.scan(reader.rest())
        pieces.append(reader.take(count))
        if ended or sum(map(len, pieces)) > most:
            break
        if not (yield from reader.more()):
            return None
    try:
        text = json.loads("".join(pieces))
    except ValueError:
        return None
    return text if isinstance(text, str) else None
