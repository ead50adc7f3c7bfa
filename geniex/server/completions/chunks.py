"""The chunks of a streamed completion: concatenated, their texts are the whole one."""

from collections.abc import Iterator

from geniex.answering import Answer, AnswerPart
from geniex.chat.reasoning import Part
from geniex.server.chunks import Chunks
from geniex.server.logprobs import for_completion
from geniex.server.sse import as_json


class CompletionChunks(Chunks):
    """Each choice ends with an empty text and its finish."""

    object_name = "text_completion"
    id_prefix = "cmpl"

    def __init__(self, *, include_usage: bool, logprobs: int | None) -> None:
        super().__init__(include_usage=include_usage)
        self._logprobs = logprobs
        self._lengths: dict[int, int] = {}

    def parts(self, index: int, part: AnswerPart) -> Iterator[str]:
        """The text of a part."""
        if not isinstance(part, Part) or not (part.text or part.logprobs):
            return
        logprobs = "null"
        if self._logprobs is not None:
            start = self._lengths.get(index, 0)
            entries = for_completion(part.logprobs, start, alternatives=self._logprobs > 0)
            self._lengths[index] = start + sum(map(len, entries["tokens"]))
            logprobs = as_json(entries)
        yield _choice(index, part.text, logprobs, "null")

    def finish(self, index: int, answer: Answer) -> Iterator[str]:
        """An empty text with the reason."""
        yield _choice(index, "", "null", f'"{answer.finish_reason}"')


def _choice(index: int, text: str, logprobs: str, finish: str) -> str:
    return (
        f'{{"index":{index},"text":{as_json(text)},"logprobs":{logprobs},"finish_reason":{finish}}}'
    )
