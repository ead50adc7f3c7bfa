"""Calls as bare JSON: alone, in a fenced block, among words, or behind a mark of their own.

{"name": "weather", "parameters": {"city": "Paris"}}            Llama 3, and models without
<|python_tag|>{"name": ...}; {"name": ...}                      a format of their own
<|tool_call|>[{"name": ..., "arguments": ...}]                  Granite, Phi 4
<|START_ACTION|>[{"tool_name": ..., "parameters": ...}]         Command R and A
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geniex.chat.gbnf.rules import Rules, quote
from geniex.chat.tool_calls.call_object import object_calls, one_or_more, read_call
from geniex.chat.tool_calls.reader import CallReader, Reading

_FENCE = "```"
_LANGUAGES = ("json", "tool_call", "tool_calls")
_ENDS = {"<|tool_call|>": "<|/tool_call|>", "<|START_ACTION|>": "<|END_ACTION|>"}


@dataclass(frozen=True, slots=True)
class Bare:
    """`arguments` is what the member with the arguments is called, `mark` what stands before."""

    arguments: str = "arguments"
    mark: str = ""
    marks: Sequence[str] = (_FENCE, "<|python_tag|>", *_ENDS, '{"name"', '[{"name"')
    starts: Sequence[str] = ("{", "[")

    @property
    def enforced(self) -> str:
        return self.mark

    @property
    def kept(self) -> Sequence[str]:
        return (self.mark, _ENDS[self.mark]) if self.mark else ()

    def read(self, reader: CallReader, mark: str) -> Reading:
        if mark.startswith(("{", "[")):
            reader.back_to(reader.place - len(mark))
        if mark == _FENCE:
            for language in _LANGUAGES:
                if (yield from reader.literal(language)):
                    break
        if (yield from reader.skip()) == "[":
            found = yield from read_list(reader)
        else:
            found = yield from _run(reader, marked=mark in _ENDS)
        end = _FENCE if mark == _FENCE else _ENDS.get(mark)
        if found and end and not reader.stopped:
            place = reader.place
            yield from reader.skip()
            if not (yield from reader.literal(end)):
                reader.back_to(place)
        return found

    def grammar(self, rules: Rules, arguments: Mapping[str, str], *, several: bool) -> str:
        call = object_calls(rules, arguments, key=self.arguments)
        if self.mark:
            listed = one_or_more(call, ", ", several=several)
            return f"{quote(self.mark + '[')} {listed} {quote(']' + _ENDS[self.mark])}"
        # the template of Llama 3 takes one call in a message
        return one_or_more(call, "\n", several=several and self.arguments == "arguments")


def _run(reader: CallReader, *, marked: bool) -> Reading:
    """Read objects one behind the other, parted by blank space, commas or semicolons."""
    found = False
    while True:
        place = reader.place
        if (yield from reader.skip(" \t\r\n,;" if found else " \t\r\n")) != "{" or not (
            yield from read_call(reader, marked=marked)
        ):
            reader.back_to(place)
            return found
        found = True
        if reader.stopped:
            return True


def read_list(reader: CallReader) -> Reading:
    """Read a list of calls."""
    if not (yield from reader.literal("[")):
        return False
    yield from reader.skip()
    found = yield from _run(reader, marked=False)
    if found and not reader.stopped:
        place = reader.place
        yield from reader.skip()
        if not (yield from reader.literal("]")):
            reader.back_to(place)
    return found
