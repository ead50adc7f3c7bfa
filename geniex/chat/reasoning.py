"""Parting what a model thinks from what it says, in a stream of text.

Models mark their thinking by tags; `FORMATS` lists those in use. The splitter works on text, not
on tokens: a tag may arrive in any number of pieces. Its choices:

* `<think>` and its like count only at the start of an answer (blank space aside). Later in the
  text they are words, as in an answer about HTML or about these very tags. Tags that are control
  tokens in every vocabulary which has them count anywhere.
* A closing tag without an opening one is text. The first closing tag closes.
* A block that is never closed is reasoning to the end.
* Blank space around the reasoning, and blank lines between it and the answer, are dropped. An
  answer without reasoning is passed on unchanged.
* A gpt-oss message addressed to a tool (`<|channel|>commentary to=...`) passes through as content
  with its header, for the parser of tool calls.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from geniex_runtimes.contract import TokenLogprob

Kind: TypeAlias = Literal["content", "reasoning"]


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """One way of marking: texts that open and close reasoning, and texts to leave out of content.

    `anywhere`: whether the opening text counts in the middle of an answer too.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    drops: tuple[str, ...] = ()
    anywhere: bool = False


THINK = ReasoningFormat(("<think>",), ("</think>",))
HARMONY_NEXT = "<|start|>assistant"
HARMONY_FINAL = "<|channel|>final<|message|>"
_HARMONY_ANSWERS = tuple(
    start + f"<|channel|>{channel}<|message|>"
    for channel in ("final", "commentary")
    for start in (HARMONY_NEXT, "")
)
HARMONY = ReasoningFormat(  # gpt-oss
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|channel|>analysis<|message|>"),
    ("<|end|>", *_HARMONY_ANSWERS),
    ("<|end|>", *_HARMONY_ANSWERS),
    anywhere=True,
)
FORMATS: tuple[ReasoningFormat, ...] = (
    THINK,
    ReasoningFormat(("<seed:think>",), ("</seed:think>",)),  # Seed-OSS
    ReasoningFormat(("<mm:think>",), ("</mm:think>",)),  # MiniMax M3
    ReasoningFormat(("<thought>",), ("</thought>",)),  # EXAONE Deep
    ReasoningFormat(("◁think▷",), ("◁/think▷",)),  # Kimi VL
    ReasoningFormat(("[THINK]",), ("[/THINK]",), anywhere=True),  # Mistral
    ReasoningFormat(("<|channel>thought",), ("<channel|>",), anywhere=True),  # Gemma 4
    ReasoningFormat(  # Command A
        ("<|START_THINKING|>",),
        ("<|END_THINKING|>",),
        ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        anywhere=True,
    ),
    ReasoningFormat(  # Apertus
        ("<|inner_prefix|>",), ("<|inner_suffix|>",), anywhere=True
    ),
    HARMONY,
)

# tags that templates look for in the assistant messages of clients which leave reasoning inline
HISTORY_TAGS = frozenset(
    {"<think>", "</think>", "[THINK]", "[/THINK]", "<|channel>", "<channel|>"}
    | {"<seed:think>", "</seed:think>", "<mm:think>", "</mm:think>"}
    | {"<|START_THINKING|>", "<|END_THINKING|>"}
)


def formats_in(source: str | None) -> tuple[ReasoningFormat, ...]:
    """The formats that a chat template speaks of, and `<think>`, which many a one omits."""
    text = source or ""
    return tuple(
        form for form in FORMATS if form is THINK or any(mark in text for mark in form.opens)
    )


def open_format(prompt: str, formats: Sequence[ReasoningFormat]) -> ReasoningFormat | None:
    """The format whose opening text ends the prompt, if one does: the answer begins inside it."""
    end = prompt.rstrip()
    return next((form for form in formats if end.endswith(form.opens)), None)


@dataclass(frozen=True, slots=True)
class Part:
    """A run of an answer's text.

    `logprobs` are the tokens that end in it, where they were asked for; `at` is the place of its
    first character in the text that the model wrote.
    """

    kind: Kind
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    at: int = field(default=0, compare=False, repr=False)


class ReasoningSplitter:
    """Takes an answer's text as it comes and gives it back in parts.

    `open`: the prompt ended with an opening text. Parts of one kind that follow each other belong
    together; how the text was cut on its way in never matters to what they add up to.
    """

    def __init__(self, open: bool = False, formats: Sequence[ReasoningFormat] = FORMATS) -> None:
        drops: _Marks = {text: None for form in formats for text in form.drops}
        self._anywhere = drops | _openings(form for form in formats if form.anywhere)
        self._at_start = drops | _openings(formats)
        self._closes: Collection[str] = {text for form in formats for text in form.closes}
        self._thinking = self._fresh = open  # fresh: this block has not shown a character yet
        self._speaking = False  # content has begun
        self._after = False  # reasoning came before content: blank lines are dropped
        self._buffer = ""  # always the end of what has been fed
        self._blank = 0  # characters that it begins with which are known to be blank
        self._fed = 0

    def feed(self, text: str) -> list[Part]:
        """Take a piece of text; give what is decided."""
        self._buffer += text
        self._fed += len(text)
        return self._advance(final=False)

    def finish(self) -> list[Part]:
        """What was held back, once no more text comes."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> list[Part]:
        parts: list[Part] = []
        more = True
        while more and self._buffer:
            if self._thinking:
                more = self._think(parts, final)
            elif self._speaking:
                more = self._speak(parts, final)
            else:
                more = self._begin(final)
        return parts

    def _think(self, parts: list[Part], final: bool) -> bool:
        """Inside reasoning; whether the buffer can be worked on further."""
        if self._fresh:
            self._buffer, self._blank = self._buffer.lstrip(), 0
        end, mark = _find(self._buffer, self._closes, final, self._blank)
        rest = self._buffer[self._blank : end].rstrip()
        if text := self._buffer[: self._blank + len(rest)] if rest else "":
            parts.append(Part("reasoning", text, at=self._fed - len(self._buffer)))
            self._fresh = False
        if mark:
            self._buffer, self._blank = self._buffer[end + len(mark) :], 0
            self._thinking, self._after = False, not self._speaking
            return True
        # blank space at the end waits: it goes if the block ends here. A model may write very much
        # of it, and all of it must not be looked at for each piece
        self._buffer = "" if final else self._buffer[len(text) :]
        self._blank = max(0, end - len(text))
        return False

    def _begin(self, final: bool) -> bool:
        """Before the first word of content, where every opening text counts."""
        body = self._buffer.lstrip()
        for mark in self._at_start:
            if body.startswith(mark):
                self._enter(self._at_start[mark], body[len(mark) :])
                return True
        if not final and (not body or any(mark.startswith(body) for mark in self._at_start)):
            return False
        if self._after:
            blank = self._buffer[: len(self._buffer) - len(body)]
            self._buffer = blank[blank.rfind("\n") + 1 :] + body if body else ""
        self._speaking = True
        return True

    def _speak(self, parts: list[Part], final: bool) -> bool:
        """Inside content."""
        end, mark = _find(self._buffer, self._anywhere, final)
        if end:
            at = self._fed - len(self._buffer)
            parts.append(Part("content", self._buffer[:end], at=at))
        if mark:
            self._enter(self._anywhere[mark], self._buffer[end + len(mark) :])
            return True
        self._buffer = self._buffer[end:]
        return False

    def _enter(self, form: ReasoningFormat | None, rest: str) -> None:
        """Go on behind a mark: into reasoning, or past a text that is left out."""
        self._buffer = rest
        if form is not None:
            self._thinking = self._fresh = True
            self._closes = form.closes


_Marks: TypeAlias = dict[str, ReasoningFormat | None]


def _openings(formats: Iterable[ReasoningFormat]) -> _Marks:
    return {mark: form for form in formats for mark in form.opens}


def _find(text: str, marks: Collection[str], final: bool, start: int = 0) -> tuple[int, str]:
    """Where the first mark stands and which it is; else where text ends that is sure to be text.

    No mark begins before `start`.
    """
    found = [(at, mark) for mark in marks if (at := text.find(mark, start)) >= 0]
    if found:
        return min(found)
    longest = 0 if final else max(map(len, marks), default=0) - 1
    firsts = {mark[0] for mark in marks}
    for at in range(max(start, len(text) - longest), len(text)):
        if text[at] in firsts and any(mark.startswith(text[at:]) for mark in marks):
            return at, ""
    return len(text), ""
