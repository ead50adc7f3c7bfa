"""A chat at the terminal: asks the model, shows the answer as it comes, remembers both."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from geniex.chat.messages import Message
from geniex.chat.reasoning import Kind, Part
from geniex.cli import profile
from geniex.cli.output import Output
from geniex.client.model import ServedModel
from geniex.facts import facts_of
from geniex.session import Answer, AnswerOptions, AnswerPart, OpenModel


class Events(Protocol):
    """A running answer: parts, then one Answer."""

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        """The events."""
        ...

    def close(self) -> None:
        """Cancel what is still running."""
        ...


class Conversation:
    """Messages so far and how to answer the next. `live` shows answers as they come.

    `on_turn` is called when there are new messages, `on_save` with the file of a `/save`.
    """

    def __init__(
        self,
        model: OpenModel | ServedModel,
        output: Output,
        options: AnswerOptions,
        *,
        system: str | None = None,
        live: bool = True,
    ) -> None:
        self.model = model
        self.facts = model.facts if isinstance(model, ServedModel) else facts_of(model)
        self.output = output
        self.options = options
        self.system = system
        self.messages: list[Message] = []
        self.on_turn: Callable[[], None] = _nothing
        self.on_save: Callable[[Path], None] = lambda path: None
        self._heard: list[Part] = []
        self._live = live
        self._told: set[str] = set()

    def heard(self, kind: Kind) -> str:
        """What has come of the answer under way, or of one that failed; empty once it is whole."""
        return "".join(part.text for part in self._heard if part.kind == kind)

    def ask(self, text: str) -> Answer:
        """One turn. What was said before a Ctrl-C stays in the chat.

        A turn that failed, or to which nothing was said, does not. Raises what
        `OpenModel.answer` raises, and KeyboardInterrupt.
        """
        user = Message("user", text)
        system = [Message("system", self.system)] if self.system else []
        try:
            answer = self._show(
                lambda: self.model.answer([*system, *self.messages, user], self.options)
            )
        except KeyboardInterrupt:
            if heard := self.heard("content"):
                self.messages += [user, Message("assistant", heard)]
                self.on_turn()
            raise
        if answer.content or answer.reasoning:
            reasoning = answer.reasoning or None
            self.messages += [user, Message("assistant", answer.content, reasoning)]
            self.on_turn()
        return answer

    def go_on(self, tokens: Sequence[int]) -> Answer:
        """One raw turn from token ids; the chat does not remember it."""
        return self._show(lambda: self.model.answer_tokens(tokens, self.options))

    def _show(self, start: Callable[[], Events]) -> Answer:
        """Show the parts as they come and the profile at the end."""
        self._heard = []
        thinking = False
        answer = None
        output = self.output
        try:
            with output.status("encoding...") as status, closing(start()) as events:
                for event in events:
                    if isinstance(event, Answer):
                        answer = event
                    if not isinstance(event, Part):
                        continue
                    status.stop()
                    self._heard.append(event)
                    thinking = self._show_part(event, thinking)
        finally:
            if self._live:
                if thinking:
                    output.reasoning("\n</think>\n")
                output.end_answer()
        if answer is None:
            raise RuntimeError("the runtime ended without a result")
        self._show_end(answer)
        self._heard = []
        return answer

    def _show_part(self, part: Part, thinking: bool) -> bool:
        if self._live:
            if part.kind == "reasoning" and not thinking:
                self.output.reasoning("<think>\n")
            if part.kind == "content" and thinking:
                self.output.reasoning("\n</think>\n")
            show = self.output.reasoning if part.kind == "reasoning" else self.output.answer
            show(part.text)
        return part.kind == "reasoning"

    def _show_end(self, answer: Answer) -> None:
        for note in answer.notes:
            if note not in self._told:  # once a chat, not once a turn
                self._told.add(note)
                self.output.warn(note)
        if self._live:
            if cut := self._cut(answer):
                self.output.warn(cut)
            self.output.note(f"\n{profile.block(answer.profile, self.facts.devices)}\n")

    def _cut(self, answer: Answer) -> str | None:
        """How an answer that is not whole was cut; None where it is whole, or none was wanted."""
        budget = self.options.max_tokens
        if answer.finish_reason != "length" or budget == 0:
            return None
        if answer.profile.stop_reason == "context":
            size = self.facts.context_length
            fixed = self.facts.runtime == "qairt"
            what = f"the context of {size} tokens is full"
            more = "a bundle's is fixed" if fixed else "`--nctx` sets it"
        else:
            what, more = f"it has the {budget} tokens of `--max-tokens`", "-1 is no limit"
        if answer.reasoning and not answer.content:
            return f"there is no answer, only reasoning: {what} ({more})"
        if self.options.sampling.grammar is not None or self.options.response_format is not None:
            return f"the answer is cut and does not fit its grammar: {what} ({more})"
        return f"the answer is cut: {what} ({more})"


def _nothing() -> None:
    """Nobody wants to know of turns."""
