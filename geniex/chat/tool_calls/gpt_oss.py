"""The calls of gpt-oss: messages of the commentary channel that are addressed to a function.

<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geniex.chat.gbnf.rules import Rules, either, quote
from geniex.chat.tool_calls.call_object import stream_value
from geniex.chat.tool_calls.reader import CallReader, Reading

_ADDRESS = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")
_MESSAGE = "<|message|>"
_CHANNEL = "<|channel|>commentary"
_MAX_HEAD = 400


@dataclass(frozen=True, slots=True)
class GptOss:
    """OpenAI's open-weight models, whose format is named harmony."""

    marks: Sequence[str] = ("<|start|>assistant", _CHANNEL, "<|channel|>analysis to=")
    starts: Sequence[str] = ("to=functions.",)
    enforced: str = "to=functions."
    kept: Sequence[str] = ("<|channel|>", "<|constrain|>", _MESSAGE, "<|start|>", "<|end|>")

    def read(self, reader: CallReader, mark: str) -> Reading:
        head = yield from reader.until(_MESSAGE, _MAX_HEAD)
        found = _ADDRESS.search(mark + head) if head is not None else None
        if found is None or found[1] not in reader.tools:
            return False
        reader.begin(found[1])
        if (yield from reader.skip()) == "{":
            yield from stream_value(reader)
        for end in ("<|call|>", "<|end|>"):
            if (yield from reader.literal(end)):
                break
        reader.end()
        return True

    def grammar(self, rules: Rules, arguments: Mapping[str, str], *, several: bool) -> str:
        # `<|call|>` ends the answer, so there is one call in it
        json = rules.add(f'(" " {quote("<|constrain|>")}? "json")?', "json")
        calls = []
        for name, rule in arguments.items():
            to = f"to=functions.{name}"
            head = either([quote(f"{_CHANNEL} {to}"), quote(f" {to}{_CHANNEL}")])
            calls.append(f"{head} {json} {quote(_MESSAGE)} {rule}")
        return rules.add(either(calls), "call")
