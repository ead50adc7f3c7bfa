"""A model's own chat template: messages in, prompt out.

BOS: a template that writes the BOS text keeps it in the prompt. The one place that sees to exactly
one BOS is the runtime's tokenizer, which knows whether the vocabulary wants it and counts tokens.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from geniex.chat import plain, tool_prompt
from geniex.chat.messages import Message, ToolCall, flatten, template_form
from geniex.chat.reasoning import (
    FORMATS,
    HISTORY_TAGS,
    ReasoningFormat,
    ReasoningSplitter,
    formats_in,
    open_format,
)
from geniex.chat.repairs import NO_SYSTEM_ROLE, REPAIRS, SYSTEM_FIRST, Messages
from geniex.chat.sandbox import Limits, Outcome, TemplateSandbox, one_line
from geniex.chat.special import ControlTokens, Guard
from geniex.chat.thinking import ThinkingWish, ask
from geniex_catalogue.errors import TemplateError, UsageError
from geniex_runtimes.contract import ModelInfo, PromptPiece

_NEEDLE = "needle in a haystack"
_STRAW = "straw of a haystack"
# a small chat in which a tool was called; some templates insist on ids of nine characters
_RESULT = (
    Message("user", "hay"),
    Message("assistant", None, tool_calls=(ToolCall("look", {"in": _STRAW}, "abcdefgh1"),)),
    Message("tool", _NEEDLE, name="look", tool_call_id="abcdefgh1"),
)
_TOOL_ROLE = re.compile(r"""==\s*['"]tool['"]""")
_OWN_NAMES = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})

_IGNORED = {
    "image": "this model does not support images; ignoring image input",
    "audio": "this model does not support audio; ignoring audio input",
    "video": "this model does not support videos; ignoring video input",
    "file": "this model does not support files; ignoring file input",
}

Tools: TypeAlias = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt.

    `reasoning_open`: it ends inside a reasoning block, so the answer begins there. `notes` are for
    the user's eyes, and the same for each turn of a chat. `stop` are strings that end the answer
    in this format. `formats` are the ways in which this model may mark its reasoning.
    """

    pieces: tuple[PromptPiece, ...]
    reasoning_open: bool = False
    notes: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    formats: tuple[ReasoningFormat, ...] = FORMATS

    @property
    def text(self) -> str:
        """The prompt in one piece."""
        return "".join(piece.text for piece in self.pieces)

    def splitter(self) -> ReasoningSplitter:
        """A splitter for the answer to this prompt."""
        return ReasoningSplitter(self.reasoning_open, self.formats)


@dataclass(frozen=True, slots=True)
class _Traits:
    """What a template can take: found by rendering a small chat in each form."""

    content_parts: bool
    no_tools: Mapping[str, object]
    system_role: bool
    developer_role: bool
    tool_role: bool


@dataclass(frozen=True, slots=True)
class _Job:
    """One call of `render`: what its attempts share; all of them end by `deadline`."""

    guard: Guard
    variables: Mapping[str, object]
    deadline: float


class ChatTemplate:
    """Renders messages through the template of one model; usable from any thread.

    `source` None or blank: the model has no template and the plain format is used.
    `control_tokens` are the texts that the tokenizer takes for special tokens.
    """

    def __init__(
        self,
        source: str | None,
        *,
        bos_token: str = "",
        eos_token: str = "",
        control_tokens: frozenset[str] = frozenset(),
        limits: Limits | None = None,
    ) -> None:
        self._source = source or ""
        self._limits = limits or Limits()
        self._sandbox = (
            TemplateSandbox(self._source, self._limits) if self._source.strip() else None
        )
        self._tokens = ControlTokens(control_tokens)
        self._special = {"bos_token": bos_token, "eos_token": eos_token}
        self._formats = formats_in(source)
        self._known: _Traits | None = None

    @classmethod
    def of(cls, info: ModelInfo) -> "ChatTemplate":
        """The template of a loaded model."""
        return cls(
            info.chat_template,
            bos_token=info.bos_token,
            eos_token=info.eos_token,
            control_tokens=info.control_tokens,
        )

    @property
    def source(self) -> str:
        """The template's own text; empty where the model has none."""
        return self._source

    @property
    def knows_tools(self) -> bool:
        """Whether the template tells the model of tools."""
        return "tools" in self._names

    @property
    def _joins_results(self) -> bool:
        """Whether results of tools belong into the message that called them."""
        return "tool_responses" in self._source and _TOOL_ROLE.search(self._source) is None

    @property
    def stops_thinking(self) -> bool:
        """Whether the template has a switch by which the model does not think."""
        return ask(False, self._names, self._source).note is None

    @property
    def _names(self) -> frozenset[str]:
        """The variables that the template reads."""
        return self._sandbox.names() if self._sandbox else frozenset()

    def render(
        self,
        messages: Sequence[Message],
        *,
        think: bool | None = None,
        tools: Tools | None = None,
        add_generation_prompt: bool = True,
        extra: Mapping[str, object] | None = None,
    ) -> Rendered:
        """The prompt for the messages.

        `think` None leaves the template's own default. `tools` are OpenAI tool definitions.
        `extra` are further variables for the template, which win over what `think` sets.

        Raises TemplateError when the template refuses, fails or passes a limit, UsageError for
        content of unknown kind or a variable that cannot be set this way.
        """
        extra = extra or {}
        if clash := _OWN_NAMES & extra.keys():
            raise UsageError(f"a template's `{min(clash)}` cannot be set as an extra variable")
        turns, notes = _flattened(messages)
        if not turns:
            raise TemplateError("there are no messages to make a prompt from")
        try:
            names = self._names
            if tools and not self.knows_tools:
                notes.append(tool_prompt.NOTE)
                turns, tools = tuple(tool_prompt.with_tools(turns, tools)), None
            guard = Guard(self._tokens, self._source, [[m.as_dict() for m in turns], tools, extra])
            if self._sandbox is None:
                turns = tool_prompt.calls_as_text(turns)
                text = _plain(turns, guard, add_generation_prompt, notes)
                return Rendered(guard.cut(text), False, tuple(notes), plain.STOP, self._formats)
            wish = ThinkingWish() if think is None else ask(think, names, self._source)
            notes += [wish.note] if wish.note else []
            given = {"tools": guard.cover(tools)} if tools else {}
            given |= {"add_generation_prompt": add_generation_prompt, **wish.variables}
            given |= {name: guard.cover(value) for name, value in extra.items()}
            job = _Job(guard, given, time.monotonic() + self._limits.seconds)
            turns = self._fitted(turns, wish, job, notes)
            return self._finished(self._accepted(turns, job, notes), guard, notes)
        except RecursionError as exc:
            raise TemplateError("the messages are nested too deeply") from exc

    def close(self) -> None:
        """Stop the template's process."""
        if self._sandbox is not None:
            self._sandbox.close()

    def _fitted(self, turns: Messages, wish: ThinkingWish, job: _Job, notes: list[str]) -> Messages:
        """The messages in roles that the template has."""
        traits = self._traits(job.deadline)
        if not traits.developer_role:
            turns = tuple(replace(m, role="system") if m.role == "developer" else m for m in turns)
        if self._joins_results:
            turns = tool_prompt.results_with_calls(turns)
        elif not traits.tool_role and any(m.role == "tool" or m.tool_calls for m in turns):
            notes.append(tool_prompt.RESULT_NOTE)
            turns = tool_prompt.calls_as_text(turns)
        if wish.system_flag:
            turns = _flagged(turns, wish.system_flag)
        if not traits.system_role and any(m.role == "system" for m in turns):
            notes.append(NO_SYSTEM_ROLE.note)
            turns = NO_SYSTEM_ROLE.rewrite(turns)
        return turns

    def _accepted(self, turns: Messages, job: _Job, notes: list[str]) -> str:
        """The rendered text; after a refusal of the messages as they are, with repairs to them."""
        first = outcome = self._attempt(turns, job)
        if outcome.kind == "text" and _lost_system(turns, job.guard.restore(outcome.text)):
            again = self._attempt(SYSTEM_FIRST.rewrite(turns), job)
            if again.kind == "text":
                notes.append(SYSTEM_FIRST.note)
                return again.text
        for repair in REPAIRS:
            if outcome.kind != "refused":
                break
            repaired = repair.rewrite(turns)
            if repaired != turns and repair.about in outcome.text.lower():
                turns = repaired
                notes.append(repair.note)
                outcome = self._attempt(turns, job)
        if outcome.kind == "text":
            return outcome.text
        verb = "refused the messages" if first.kind == "refused" else "failed"
        raise TemplateError(
            f"the model's chat template {verb}: {one_line(job.guard.restore(first.text))}"
        )

    def _attempt(self, turns: Messages, job: _Job) -> Outcome:
        """Render once; where tool-call arguments as objects fail, once more with JSON text."""
        form = self._traits(job.deadline)
        outcome = self._render(turns, job, form)
        if outcome.kind == "failed" and any(m.tool_calls for m in turns):
            again = self._render(turns, job, form, arguments_text=True)
            outcome = again if again.kind != "failed" else outcome
        return outcome

    def _render(
        self, turns: Messages, job: _Job, form: _Traits, *, arguments_text: bool = False
    ) -> Outcome:
        assert self._sandbox is not None
        messages: list[object] = []
        for turn in turns:
            data = template_form(
                turn, content_parts=form.content_parts, arguments_text=arguments_text
            )
            exempt = HISTORY_TAGS if turn.role == "assistant" else frozenset()
            messages.append(job.guard.cover(data, exempt=exempt))
        context = {
            "documents": None,
            "add_generation_prompt": True,
            **form.no_tools,
            **self._special,
            **job.variables,
            "messages": messages,
        }
        return self._sandbox.render(context, job.guard.hidden, job.deadline)

    def _traits(self, deadline: float) -> _Traits:
        if self._known is None:
            job = _Job(Guard(ControlTokens(frozenset()), "", ()), {}, deadline)
            user = (Message("user", _NEEDLE),)
            forms = [
                _Traits(parts, no_tools, system_role=False, developer_role=False, tool_role=False)
                for no_tools in ({"tools": None}, {})
                for parts in (False, True)
            ]
            form = next((form for form in forms if self._shows(user, job, form)), forms[0])
            system, developer = (
                self._shows((Message(role, _NEEDLE), Message("user", "hay")), job, form)
                for role in ("system", "developer")
            )
            tool = self._shows(_RESULT, job, form, also=_STRAW)
            # many a template shows any role; a model only knows those that its own one names
            developer = developer and "developer" in self._source
            self._known = replace(
                form, system_role=system, developer_role=developer, tool_role=tool
            )
        return self._known

    def _shows(self, turns: Messages, job: _Job, form: _Traits, also: str = _NEEDLE) -> bool:
        """Whether the template shows the needle among these messages, and `also` something else."""
        outcome = self._render(turns, job, form)
        if outcome.kind == "failed" and any(m.tool_calls for m in turns):
            outcome = self._render(turns, job, form, arguments_text=True)
        text = outcome.text.lower() if outcome.kind == "text" else ""
        return _NEEDLE in text and also in text

    def _finished(self, text: str, guard: Guard, notes: Sequence[str]) -> Rendered:
        pieces = guard.cut(text)
        end = pieces[-1].text if pieces and not pieces[-1].literal else ""
        opened = open_format(end, self._formats)
        formats = (opened,) if opened else self._formats
        return Rendered(pieces, opened is not None, tuple(notes), (), formats)


def _flattened(messages: Sequence[Message]) -> tuple[Messages, list[str]]:
    """The messages with text alone, and what is to be said about the rest."""
    turns: list[Message] = []
    notes: dict[str, None] = {}
    for message in messages:
        text, media = flatten(message.content)
        turns.append(message.with_text(text))
        for kind in media:
            notes[_IGNORED[kind]] = None
    return tuple(turns), list(notes)


def _flagged(turns: Messages, flag: str) -> Messages:
    """The messages with a flag at the end of the system prompt."""
    if turns[0].role == "system":
        return (turns[0].with_text(f"{turns[0].text} {flag}".lstrip()), *turns[1:])
    return (Message("system", flag), *turns)


def _lost_system(turns: Messages, text: str) -> bool:
    """Whether a template left out a system message that does not stand first."""
    at = 0
    for message in turns[1:]:
        if message.role == "system":
            said = message.text.strip()
            # they mostly stand in order: looking on from the last one keeps many of them quick
            found = text.find(said, at)
            if found < 0 and (found := text.find(said, 0, at + len(said))) < 0:
                return True
            at = found
    return False


def _plain(turns: Messages, guard: Guard, add_generation_prompt: bool, notes: list[str]) -> str:
    notes.append(plain.NOTE)
    covered = [Message(guard.cover_text(m.role), guard.cover_text(m.text)) for m in turns]
    return plain.render(covered, add_generation_prompt=add_generation_prompt)
