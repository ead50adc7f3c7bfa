"""Mistral's calls: `[TOOL_CALLS][{"name": ..., "arguments": ...}]`, and since 2025 one by one:

[TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]time[CALL_ID]Ab12[ARGS]{}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geniex.chat.gbnf.rules import Rules, either, quote
from geniex.chat.tool_calls.bare import read_list
from geniex.chat.tool_calls.call_object import object_calls, one_or_more, stream_value
from geniex.chat.tool_calls.reader import CallReader, Reading

_MARK, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_MAX_HEAD = 300


@dataclass(frozen=True, slots=True)
class Mistral:
    """`one_by_one`: the newer form, by which calls are enforced."""

    one_by_one: bool = False
    marks: Sequence[str] = (_MARK,)
    starts: Sequence[str] = ()
    enforced: str = _MARK
    kept: Sequence[str] = (_MARK, _ARGS)

    def read(self, reader: CallReader, mark: str) -> Reading:
        if (yield from reader.skip()) == "[":
            return (yield from read_list(reader))
        head = yield from reader.until("{", _MAX_HEAD)
        if head is None:
            return False
        name = head.removesuffix(_ARGS).split(_ID)[0].strip()
        if name not in reader.tools:
            return False
        reader.begin(name)
        reader.back_to(reader.place - 1)
        yield from stream_value(reader)
        reader.end()
        return True

    def grammar(self, rules: Rules, arguments: Mapping[str, str], *, several: bool) -> str:
        if self.one_by_one:
            calls = [f"{quote(_MARK + name + _ARGS)} {rule}" for name, rule in arguments.items()]
            return one_or_more(rules.add(either(calls), "call"), "", several=several)
        listed = one_or_more(object_calls(rules, arguments), ", ", several=several)
        return f"{quote(_MARK + '[')} {listed} {quote(']')}"
