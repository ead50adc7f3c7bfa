"""An answer that can be read while it is made: what `Model.chat` gives."""

import threading
import weakref
from collections.abc import Iterator
from typing import Protocol, Self

from geniex.answering import Answer, AnswerEnd, AnswerPart
from geniex.chat.messages import ToolCall
from geniex.chat.reasoning import Kind, Part
from geniex.chat.tools import ToolCallPart
from geniex_runtimes.contract import Profile
from geniex_runtimes.errors import GenerationError


class Events(Protocol):
    """A running answer, as `geniex.session` has it: parts, then one Answer."""

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        """The events."""
        ...

    def close(self) -> None:
        """Cancel what is still running."""
        ...


class ChatAnswer:
    """An answer on its way: iterate for its content as it comes, or ask for the whole.

    Iterating gives the pieces of the content from the first one on, however often it is done and
    from whichever thread. `str()` and the attributes wait for the end. What fails later than the
    start raises GenerationError here. `close`, a `with` statement around it, or dropping the last
    reference stops an answer that nobody wants to its end.
    """

    def __init__(self, events: Events, model: object = None) -> None:
        """`model` is what must stay in memory until the end."""
        self._model = model
        self._events = events
        self._rest = iter(events)
        self._lock = threading.Lock()
        self._parts: list[AnswerPart] = []
        self._answer: Answer | None = None
        self._failure: Exception | None = None
        self._closed = False
        # dropped without an end: the model is free for the next one
        weakref.finalize(self, events.close).atexit = False

    def __iter__(self) -> Iterator[str]:
        for part in self.parts():
            if isinstance(part, Part) and part.kind == "content":
                yield part.text

    def parts(self) -> Iterator[AnswerPart]:
        """All of it as it comes: content, reasoning and pieces of tool calls, in their order."""
        index = 0
        while True:
            while index < len(self._parts):
                yield self._parts[index]
                index += 1
            if not self._more(index) and index == len(self._parts):
                break
        if self._failure is not None:
            raise self._failure

    def result(self) -> Answer:
        """Wait for the end. Raises GenerationError where there is none, or the model was closed.

        After `close` it is what had come until then: `finish_reason` is `cancelled`, and the
        profile is empty.
        """
        for _ in self.parts():
            pass
        if self._answer is None:  # closed
            return Answer(self._said("content"), self._said("reasoning"), "cancelled", Profile())
        return self._answer

    @property
    def content(self) -> str:
        """What is said."""
        return self.result().content

    @property
    def reasoning(self) -> str:
        """What was thought before it was said."""
        return self.result().reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model calls."""
        return self.result().tool_calls

    @property
    def finish_reason(self) -> AnswerEnd:
        """How it ended: `stop`, `length`, `tool_calls`, or `cancelled`."""
        return self.result().finish_reason

    @property
    def profile(self) -> Profile:
        """What it took, in tokens and seconds."""
        return self.result().profile

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, such as an image that was left out."""
        return self.result().notes

    def close(self) -> None:
        """Stop it; nothing happens after the end. May be called twice, and from any thread."""
        self._closed = True
        self._events.close()

    def _more(self, seen: int) -> bool:
        """Wait for a part beyond those `seen`; False at the end."""
        with self._lock:
            if len(self._parts) > seen:  # another thread was faster
                return True
            if self._answer is not None or self._failure is not None:
                return False
            try:
                event = next(self._rest, None)
            except Exception as exc:
                self._failure = None if self._closed else exc
                return False
            except BaseException:  # Ctrl-C: there is no going on from here
                self.close()
                raise
            if isinstance(event, Part | ToolCallPart):
                self._parts.append(event)
                return True
            if event is not None and event.finish_reason != "cancelled":
                self._answer = event
            elif not self._closed:
                self._failure = GenerationError(
                    "the model was closed while it answered",
                    hint="read the answer first: `str(answer)` waits for its end",
                )
            return False

    def _said(self, kind: Kind) -> str:
        """The text of that kind which has come so far."""
        parts = list(self._parts)
        return "".join(p.text for p in parts if isinstance(p, Part) and p.kind == kind)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        # what has come so far: looking at an answer in a debugger does not wait for it
        more = "" if self._answer else " ..."
        return f"<{type(self).__name__} {self._said('content')!r}{more}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
