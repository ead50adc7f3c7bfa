"""Parting calls of tools from the content around them, in a stream of text.

The text may be cut anywhere on its way in. Text that looks like a call and is none, such as one of
a tool that was not given, comes out as content, unchanged. Once a given tool is named it is a
call: its arguments come out as they are written. Blank space between calls is dropped.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol, TypeAlias

from geniex.chat.gbnf.rules import Rules
from geniex.chat.reasoning import Part
from geniex.chat.tools import Tool, ToolCallPart, new_call_id

# a step of reading that waits for more text wherever it yields, and tells at its end what it found
Reading: TypeAlias = Generator[None, None, bool]


class Family(Protocol):
    """One way of writing calls."""

    @property
    def marks(self) -> Sequence[str]:
        """Texts that may begin a call anywhere."""
        ...

    @property
    def starts(self) -> Sequence[str]:
        """Texts that only count as the first words of the content."""
        ...

    @property
    def enforced(self) -> str:
        """A text that each call by `grammar` has before its name, and no other text; or empty."""
        ...

    @property
    def kept(self) -> Sequence[str]:
        """Marks of the chat format in calls: a grammar must not rule them out."""
        ...

    def read(self, reader: "CallReader", mark: str) -> Reading:
        """Read calls whose `mark` has been passed; False where it began none."""
        ...

    def grammar(self, rules: Rules, arguments: Mapping[str, str], *, several: bool) -> str:
        """An expression for one call or several; `arguments` are the rules for each tool's."""
        ...


class CallReader:
    """Takes an answer's content in parts and gives it back with the calls taken out.

    `stopped` is set behind the first call where `parallel` is False: what follows is left out.
    `required`: the answer is a call, and what there is of one that breaks off is no content.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        families: Sequence[Family],
        *,
        parallel: bool = True,
        required: bool = False,
    ) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.stopped = False
        self._marks = {mark: family for family in families for mark in family.marks}
        self._starts = {start: family for family in families for start in family.starts}
        self.parallel = parallel
        self._required = required
        self._final = False
        self._buffer = ""
        self._gone = 0  # how much was cut off its beginning
        self._at = 0  # how much of the buffer has been read
        self._sent = 0  # how much of it has been given back, or belongs to a call
        # (where in the buffer a part begins, where in the answer)
        self._places: list[tuple[int, int]] = []
        self._calls = 0
        self._said = True  # the last call has arguments
        self._fresh = True  # no word of content and no call yet
        self._behind_call = False  # nothing but blank space since a call
        self._out: list[Part | ToolCallPart] = []
        self._run = self._parts()

    def feed(self, part: Part) -> list[Part | ToolCallPart]:
        """Take a part of the content; give what is decided."""
        if self.stopped:
            return []
        self._places.append((len(self._buffer), part.at))
        self._buffer += part.text
        return self._advance()

    def finish(self) -> list[Part | ToolCallPart]:
        """What was held back, once no more content comes, or something else comes between."""
        self._final = True
        out = self._advance()
        self._final = False
        self._run = self._parts()
        return out

    def _advance(self) -> list[Part | ToolCallPart]:
        next(self._run, None)
        cut = min(self._sent, self._at)
        if cut:
            self._buffer = self._buffer[cut:]
            self._at -= cut
            self._sent -= cut
            self._gone += cut
            moved = [(max(0, begin - cut), at + max(0, cut - begin)) for begin, at in self._places]
            self._places = [
                place
                for place, after in zip(
                    moved, [*moved[1:], (len(self._buffer) + 1, 0)], strict=True
                )
                if after[0] > 0
            ]
        out, self._out = self._out, []
        return out

    def _parts(self) -> Generator[None, None, None]:
        """Content up to a mark, then what the mark begins, over and over."""
        while not self.stopped:
            at, mark, family = self._next_mark()
            # blank space before it waits: it is dropped if a call follows
            text = self._buffer[self._sent : at]
            self._tell(self._sent + len(text.rstrip()))
            if family is None:
                self._at = self._sent if not self._final else at
                if self._final:
                    self._end_of_content(at)
                    break
                yield
                continue
            self._at = at + len(mark)
            calls, behind = self._calls, self.place
            yield from family.read(self, mark)
            if self._final and self._required:
                self._close_call()
                break  # the answer broke off within it
            if self._calls == calls:
                self.back_to(behind)
                self._fresh = False
                self._tell(self._at)
            else:
                self._close_call()
                self._fresh, self._behind_call = False, True
                self._sent = self._at
        self._at = self._sent = len(self._buffer)

    def _end_of_content(self, at: int) -> None:
        if self._behind_call and not self._buffer[self._sent : at].strip():
            self._sent = at
        self._tell(at)

    def _next_mark(self) -> tuple[int, str, Family | None]:
        """Where the next mark stands, and what it is; else how much of the text is surely none."""
        text = self._buffer
        final = self._final and not self._required  # the beginning of a required mark is no text
        if self._fresh:
            begin = len(text) - len(text[self._sent :].lstrip())
            first = self._starts | self._marks
            mark = max(
                (mark for mark in first if text.startswith(mark, begin)), key=len, default=""
            )
            longer = (other for other in first if len(other) > len(text) - begin)
            if not final and any(other.startswith(text[begin:]) for other in longer):
                return begin, "", None
            if mark:
                return begin, mark, first[mark]
        found = [(at, mark) for mark in self._marks if (at := text.find(mark, self._sent)) >= 0]
        if found:
            at, mark = min(found, key=lambda place: (place[0], -len(place[1])))
            return at, mark, self._marks[mark]
        longest = 0 if final else max(map(len, self._marks), default=1) - 1
        for size in range(min(longest, len(text) - self._sent), 0, -1):
            if any(mark.startswith(text[-size:]) for mark in self._marks):
                return len(text) - size, "", None
        return len(text), "", None

    def _tell(self, end: int) -> None:
        """Give back the content up to a place in the buffer, cut where its parts were."""
        while self._sent < end:
            begin, at = next(place for place in reversed(self._places) if place[0] <= self._sent)
            ends = [place[0] for place in self._places if place[0] > self._sent]
            until = min(end, *ends) if ends else end
            text = self._buffer[self._sent : until]
            self._out.append(Part("content", text, at=at + self._sent - begin))
            if text.strip():
                self._fresh = self._behind_call = False
            self._sent = until

    # what families read with

    def begin(self, name: str) -> None:
        """A call of a given tool has begun: what has been read so far is no content."""
        self._close_call()
        self._out.append(ToolCallPart(self._calls, new_call_id(), name, ""))
        self._calls += 1
        self._said = False
        self._sent = self._at

    def arguments(self, text: str) -> None:
        """A piece of the call's arguments."""
        if text:
            self._out.append(ToolCallPart(self._calls - 1, None, None, text))
            self._said = True
        self._sent = self._at

    def end(self) -> None:
        """The call is whole. Families read on only while the reader is not `stopped`."""
        self._close_call()
        self._sent = self._at
        self.stopped = not self.parallel

    def _close_call(self) -> None:
        if not self._said:
            self._out.append(ToolCallPart(self._calls - 1, None, None, "{}"))
            self._said = True

    @property
    def place(self) -> int:
        """How far has been read; `back_to` takes it, until more of a call has been passed on."""
        return self._gone + self._at

    def back_to(self, place: int) -> None:
        """Read again from an earlier place."""
        self._at = place - self._gone

    def char(self) -> Generator[None, None, str]:
        """The next character, not taken; empty at the end."""
        while self._at >= len(self._buffer):
            if self._final:
                return ""
            yield
        return self._buffer[self._at]

    def skip(self, blank: str = " \t\r\n") -> Generator[None, None, str]:
        """Pass blank space; the next character, not taken."""
        while (char := (yield from self.char())) and char in blank:
            self._at += 1
        return char

    def take(self, count: int = 1) -> str:
        """Characters that are there."""
        text = self._buffer[self._at : self._at + count]
        self._at += len(text)
        return text

    def rest(self) -> str:
        """What is there, not taken."""
        return self._buffer[self._at :]

    @property
    def ended(self) -> bool:
        """Whether no more text comes."""
        return self._final and self._at >= len(self._buffer)

    def literal(self, text: str) -> Reading:
        """Pass a text if it comes next."""
        while not self._buffer.startswith(text, self._at):
            if self._final or not text.startswith(self._buffer[self._at :]):
                return False
            yield
        self._at += len(text)
        return True

    def more(self) -> Reading:
        """Wait for more text; False when there is none."""
        if self._final:
            return False
        yield
        return True

    def until(self, mark: str, most: int) -> Generator[None, None, str | None]:
        """Pass a text of up to `most` and the mark behind it; None where there is no such."""
        sought = self.place  # up to where the mark was looked for
        while (at := self._buffer.find(mark, sought - self._gone)) < 0:
            if len(self._buffer) - self._at >= most + len(mark) or self._final:
                return None
            sought = max(self.place, self._gone + len(self._buffer) - len(mark))
            yield
        if at - self._at > most:
            return None
        text = self._buffer[self._at : at]
        self._at = at + len(mark)
        return text
