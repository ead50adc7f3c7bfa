"""Gemma 4's calls: `<|tool_call>call:weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>`.

Keys are bare, strings stand between `<|"|>` and have no escapes; the rest is as in JSON.
"""

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from geniex.chat.gbnf.rules import Rules, either, quote
from geniex.chat.tool_calls.call_object import one_or_more, parsed
from geniex.chat.tool_calls.reader import CallReader, Reading

_OPEN, _CLOSE, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_MAX_NAME = 200
_MAX_DEPTH = 40
_SCALAR_END = re.compile(r"[,}\]<]")


@dataclass(frozen=True, slots=True)
class Gemma:
    """Gemma 4."""

    marks: Sequence[str] = (_OPEN,)
    starts: Sequence[str] = ()
    enforced: str = _OPEN
    kept: Sequence[str] = (_OPEN, _CLOSE, _QUOTE)

    def read(self, reader: CallReader, mark: str) -> Reading:
        yield from reader.skip()
        yield from reader.literal("call:")
        name = yield from reader.until("{", _MAX_NAME)
        if name is None or (name := name.strip()) not in reader.tools:
            return False
        reader.begin(name)
        reader.back_to(reader.place - 1)
        if (yield from _value(reader, 0)):
            yield from reader.skip()
        yield from reader.literal(_CLOSE)
        reader.end()
        return True

    def grammar(self, rules: Rules, arguments: Mapping[str, str], *, several: bool) -> str:
        calls = [
            f"{quote(f'{_OPEN}call:{name}')} {rule} {quote(_CLOSE)}"
            for name, rule in arguments.items()
        ]
        call = rules.add(either(calls), "call")
        return one_or_more(call, "", several=several)


def _value(reader: CallReader, depth: int) -> Reading:
    """Pass a value on as JSON; False where it breaks off."""
    char = yield from reader.skip()
    if char in ("{", "[") and depth < _MAX_DEPTH:
        reader.take()
        reader.arguments(char)
        whole = yield from _inside(reader, depth, members=char == "{")
        if whole or not reader.ended:
            reader.arguments("}" if char == "{" else "]")
        return whole
    if (yield from reader.literal(_QUOTE)):
        return (yield from _string(reader))
    text = yield from _scalar(reader)
    reader.arguments(_as_json(text))
    return bool(text)


def _inside(reader: CallReader, depth: int, *, members: bool) -> Reading:
    """Pass on what stands between the brackets, and read the closing one."""
    end = "}" if members else "]"
    comma = ""
    while (char := (yield from reader.skip())) != end:
        if comma:
            if char != ",":
                return False
            reader.take()
            if (yield from reader.skip()) == end:
                break
        if members:
            key = yield from _key(reader)
            if key is None:
                return False
            reader.arguments(f"{comma}{json.dumps(key, ensure_ascii=False)}:")
        else:
            reader.arguments(comma)
        comma = ","
        if not (yield from _value(reader, depth + 1)):
            return False
    reader.take()
    return True


def _key(reader: CallReader) -> Generator[None, None, str | None]:
    quoted = yield from reader.literal(_QUOTE)
    key = yield from reader.until(_QUOTE if quoted else ":", _MAX_NAME)
    if quoted:
        yield from reader.skip()
        yield from reader.literal(":")
    key = key and key.strip().strip('"')
    return key or None


def _string(reader: CallReader) -> Reading:
    """Pass a string on as it comes; its opening mark has been read."""
    reader.arguments('"')
    while True:
        text = reader.rest()
        end = text.find(_QUOTE)
        # what may be the beginning of the closing mark waits
        held = 0 if end >= 0 else _held(text)
        piece = text[: end if end >= 0 else len(text) - held]
        reader.take(len(piece))
        reader.arguments(json.dumps(piece, ensure_ascii=False)[1:-1])
        if end >= 0:
            reader.take(len(_QUOTE))
            reader.arguments('"')
            return True
        if not (yield from reader.more()):
            return False


def _held(text: str) -> int:
    sizes = range(min(len(_QUOTE) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(_QUOTE[:size])), 0)


def _scalar(reader: CallReader) -> Generator[None, None, str]:
    """The text of a number or a word."""
    while (found := _SCALAR_END.search(reader.rest())) is None:
        if not (yield from reader.more()):
            return reader.take(len(reader.rest())).strip()
    return reader.take(found.start()).strip()


def _as_json(text: str) -> str:
    try:
        parsed(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text
