"""The chunks of a streamed chat completion: concatenated, their deltas are the whole message."""

from collections.abc import Iterator
from typing import Any

from geniex.answering import Answer, AnswerPart
from geniex.chat.reasoning import Part
from geniex.chat.tools import ToolCallPart
from geniex.server.chunks import Chunks
from geniex.server.logprobs import for_chat
from geniex.server.sse import as_json


class ChatChunks(Chunks):
    """Each choice begins with its role, once, and ends with its finish."""

    object_name = "chat.completion.chunk"
    id_prefix = "chatcmpl"

    def __init__(self, *, include_usage: bool) -> None:
        super().__init__(include_usage=include_usage)
        self._begun: set[int] = set()

    def parts(self, index: int, part: AnswerPart) -> Iterator[str]:
        """The role before the first part; then what the part adds."""
        yield from self._role(index, None if isinstance(part, ToolCallPart) else "")
        if isinstance(part, ToolCallPart):
            yield _choice(index, _call(part))
        elif part.text or part.logprobs:
            name = "content" if part.kind == "content" else "reasoning_content"
            yield _choice(index, f'{{"{name}":{as_json(part.text)}}}', logprobs=_logprobs(part))

    def finish(self, index: int, answer: Answer) -> Iterator[str]:
        """An empty delta with the reason."""
        yield from self._role(index, "")
        yield _choice(index, "{}", finish=f'"{answer.finish_reason}"')

    def _role(self, index: int, content: str | None) -> Iterator[str]:
        if index not in self._begun:
            self._begun.add(index)
            yield _choice(index, as_json({"role": "assistant", "content": content}))


def _choice(index: int, delta: str, logprobs: str = "null", finish: str = "null") -> str:
    return f'{{"index":{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":{finish}}}'


def _call(part: ToolCallPart) -> str:
    function: dict[str, Any] = {"arguments": part.arguments}
    call: dict[str, Any] = {"index": part.index}
    if part.id is not None:
        call |= {"id": part.id, "type": "function"}
        function = {"name": part.name, **function}
    return as_json({"tool_calls": [{**call, "function": function}]})


def _logprobs(part: Part) -> str:
    if part.kind == "content" and part.logprobs:
        return as_json(for_chat(part.logprobs))
    return "null"
