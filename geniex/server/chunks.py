"""The chunks of a streamed answer, as the text of their events.

There is one for every piece of text, so they are put together from a prepared head and the JSON of
what is new. The last chunk carries the `geniex` object; with `stream_options.include_usage` that is
the one of the usage, which has no choices, and the others say `"usage":null`.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from geniex.answering import Answer, AnswerPart
from geniex.server import sse
from geniex.server.answers import Ended, Item, Opened
from geniex.server.pump import Feed, Work
from geniex.server.sse import as_json


def new_id(prefix: str) -> str:
    """An id that no other answer has."""
    return f"{prefix}-{secrets.token_hex(12)}"


class Chunks(ABC):
    """Makes one stream's events, item by item."""

    object_name: str
    id_prefix: str

    def __init__(self, *, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._head = ""
        self._tail = '],"usage":null}\n\n' if include_usage else "]}\n\n"
        # a finish waits for the next item: it may have to take the `geniex` object
        self._held = ""

    @abstractmethod
    def parts(self, index: int, part: AnswerPart) -> Iterator[str]:
        """The JSON of the choices that tell a part of the answer `index`."""

    @abstractmethod
    def finish(self, index: int, answer: Answer) -> Iterator[str]:
        """The JSON of the choices that tell how an answer ended."""

    def of(self, item: Item) -> Iterator[str]:
        """The events of an item."""
        if isinstance(item, Opened):
            head = {
                "id": new_id(self.id_prefix),
                "object": self.object_name,
                "created": item.created,
                "model": item.model,
                "system_fingerprint": item.fingerprint,
            }
            self._head = f'data: {as_json(head)[:-1]},"choices":['
            return
        if isinstance(item, Ended):
            yield from self._end(item)
            return
        if self._held:
            yield f"{self._head}{self._held}{self._tail}"
            self._held = ""
        index, event = item
        if isinstance(event, Answer):
            *choices, self._held = self.finish(index, event)
        else:
            choices = [*self.parts(index, event)]
        for choice in choices:
            yield f"{self._head}{choice}{self._tail}"

    def _end(self, item: Ended) -> Iterator[str]:
        geniex = f'"geniex":{as_json(item.geniex)}}}\n\n'
        if self._include_usage:
            yield f"{self._head}{self._held}{self._tail}"
            yield f'{self._head}],"usage":{as_json(item.usage.for_chat())},{geniex}'
        else:
            yield f"{self._head}{self._held}],{geniex}"
        yield sse.DONE.decode()


class Streamed:
    """The bytes of a stream, a source of `sse.stream`: what is ready at once is sent at once."""

    def __init__(self, work: Work[Item], chunks: Chunks) -> None:
        self._feed = Feed(work)
        self._chunks = chunks

    def listen(self, wake: Callable[[], object]) -> None:
        """See `sse.Source.listen`."""
        self._feed.listen(wake)

    def take(self) -> bytes | None:
        """See `sse.Source.take`."""
        # items without a text may be the last ones: nobody tells of the end once more
        while items := self._feed.take():
            if text := "".join([event for item in items for event in self._chunks.of(item)]):
                return text.encode("utf-8", "replace")
        return None if items is None else b""

    async def close(self) -> None:
        """See `sse.Source.close`."""
        self._feed.close()
