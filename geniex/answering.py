"""An answer: how it is asked for, the parts it comes in, and the whole at its end."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from geniex.chat.messages import ToolCall
from geniex.chat.reasoning import Part
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolCallPart, ToolChoice
from geniex_runtimes.contract import Done, FinishReason, Generation, Profile, TokenLogprob
from geniex_runtimes.options import SamplingOptions, SpeculativeOptions

AnswerEnd: TypeAlias = FinishReason | Literal["tool_calls"]
AnswerPart: TypeAlias = Part | ToolCallPart


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How to answer; see SamplingOptions and GenerationRequest.

    `think` None is as the model does, `speculative` None as it was loaded. `template_variables` are
    further variables for the chat template. `logprobs` is how many alternatives per token to
    report, None for no logprobs. `separate_reasoning` False leaves what the model thinks in the
    content, as it was written.
    """

    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    think: bool | None = None
    reuse_prefix: bool = True
    speculative: SpeculativeOptions | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None
    template_variables: Mapping[str, object] = field(default_factory=dict)
    logprobs: int | None = None
    separate_reasoning: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: what was said, what was thought, how it ended and what it took.

    `logprobs` are those of the content. `reasoning_tokens` is how many tokens the reasoning has
    when it is tokenized on its own.
    """

    content: str
    reasoning: str
    finish_reason: AnswerEnd
    profile: Profile
    notes: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning_tokens: int = 0

    def __str__(self) -> str:
        return self.content


class AnswerEvents:
    """A running answer: iterate for its parts, then one Answer; close it to cancel.

    `count` tells how many tokens the reasoning had; it is asked once, at the end. `plain` is why
    nothing is drafted though that was asked for: the profile says it.
    """

    def __init__(
        self,
        generation: Generation,
        parts: Iterable[AnswerPart | Done],
        notes: tuple[str, ...] = (),
        count: Callable[[], int] = int,
        plain: str = "",
    ) -> None:
        self._generation = generation
        self._events = _with_answer(parts, notes, count, plain)

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        return self._events

    def close(self) -> None:
        """Cancel what is still running; nothing happens after the end."""
        self._generation.close()


class _Said:
    """Adds up the parts of an answer."""

    def __init__(self) -> None:
        self.text: dict[str, list[str]] = {"content": [], "reasoning": []}
        self.calls: list[tuple[str, str, list[str]]] = []
        self.logprobs: list[TokenLogprob] = []

    def add(self, part: AnswerPart) -> None:
        if isinstance(part, Part):
            self.text[part.kind].append(part.text)
            self.logprobs += part.logprobs if part.kind == "content" else ()
            return
        if part.id is not None:
            self.calls.append((part.id, part.name or "", []))
        self.calls[part.index][2].append(part.arguments)

    def answer(self, done: Done, notes: tuple[str, ...], reasoning_tokens: int) -> Answer:
        return Answer(
            content="".join(self.text["content"]),
            reasoning="".join(self.text["reasoning"]),
            finish_reason=self._ending(done),
            profile=done.profile,
            notes=notes,
            tool_calls=tuple(ToolCall(name, "".join(json), id) for id, name, json in self.calls),
            logprobs=tuple(self.logprobs),
            reasoning_tokens=min(reasoning_tokens, done.profile.generated_tokens),
        )

    def _ending(self, done: Done) -> AnswerEnd:
        return "tool_calls" if self.calls and done.finish_reason == "stop" else done.finish_reason


def _with_answer(
    parts: Iterable[AnswerPart | Done],
    notes: tuple[str, ...],
    count: Callable[[], int],
    plain: str,
) -> Iterator[AnswerPart | Answer]:
    """The parts as they are, with an Answer made of them in place of the `Done`."""
    said = _Said()
    for part in parts:
        if isinstance(part, Done):
            yield said.answer(_with_state(part, plain), notes, count())
        else:
            said.add(part)
            yield part


def _with_state(done: Done, plain: str) -> Done:
    """The end, with why nothing was drafted in its profile."""
    if not plain or done.profile.spec_state is not None:
        return done
    return replace(done, profile=replace(done.profile, spec_state="off", spec_reason=plain))
