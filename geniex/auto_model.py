"""`AutoModelForCausalLM`: the same core for code that is written in the words of transformers.

>>> from geniex import AutoModelForCausalLM
>>> with AutoModelForCausalLM.from_pretrained("geniex/tiny-chat") as model:
...     prompt = model.tokenizer.apply_chat_template(
...         [{"role": "user", "content": "What is the capital of France?"}]
...     )
...     for piece in model.generate(prompt, temperature=0, stream=True):
...         print(piece, end="")
The capital of France is Paris.

What differs from transformers: weights are GGUF files, prompts and answers are texts, and an
argument that is not named here is Python's TypeError instead of being ignored.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack, overload

from geniex import limits, model_manager
from geniex.answering import Answer, AnswerEnd, AnswerEvents, AnswerOptions, AnswerPart
from geniex.chat.messages import Message
from geniex.chat.reasoning import Part, ReasoningSplitter, formats_in, open_format
from geniex.chat_answer import ChatAnswer
from geniex.config import read_settings
from geniex.keywords import log_notes, told_in, warnings_of
from geniex.session import OpenModel, find_local_model, open_model
from geniex.speculation_wish import read_wish
from geniex_catalogue.errors import UsageError
from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.names import local_path
from geniex_catalogue.resolver import Use
from geniex_runtimes.contract import Profile, PromptPiece
from geniex_runtimes.options import SamplingOptions

ChatMessages: TypeAlias = Sequence[Mapping[str, object]]
MAX_NEW_TOKENS = 512

_KEYWORDS = {
    "compute": "device_map",
    "nctx": "n_ctx",
    "ngl": "n_gpu_layers",
    "threads": "n_threads",
    "spec-type": "spec_type",
    "draft-model": "spec_draft_model",
    "draft-tokens": "spec_n_max",
    "draft-min": "spec_n_min",
    "draft-p-min": "spec_p_min",
    "data-dir": "data_dir",
}


class Generating(TypedDict, total=False):
    """How `generate` goes on; what is left out or None is the model's own choice.

    `max_new_tokens` None is until the context is full. 0 degrees, or `do_sample` False, is greedy.
    `stop` is a text that ends the answer, or several; `grammar` is GBNF.
    """

    max_new_tokens: int | None
    do_sample: bool | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float
    frequency_penalty: float
    seed: int | None
    stop: str | Sequence[str] | None
    grammar: str | None


@dataclass(frozen=True, slots=True)
class GenerateOutput:
    """A whole answer: `text` is what was said, `thinking` what was thought before it."""

    text: str
    thinking: str
    profile: Profile
    finish_reason: AnswerEnd

    def __str__(self) -> str:
        return self.text


class TextIteratorStreamer(ChatAnswer):
    """A running answer: iterate for its text as it comes; `output` waits for the end."""

    @property
    def output(self) -> GenerateOutput:
        """The whole answer. Raises GenerationError where it failed."""
        answer = self.result()
        return GenerateOutput(
            answer.content, answer.reasoning, answer.profile, answer.finish_reason
        )

    def cancel(self) -> None:
        """Stop it, keep what has come."""
        self.close()


class Tokenizer:
    """The text side of a loaded model: its chat template and its vocabulary."""

    def __init__(self, opened: OpenModel) -> None:
        self._opened = opened

    @overload
    def apply_chat_template(
        self,
        messages: ChatMessages,
        *,
        tokenize: Literal[False] = False,
        add_generation_prompt: bool = True,
        enable_thinking: bool | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        **variables: object,
    ) -> str: ...

    @overload
    def apply_chat_template(
        self,
        messages: ChatMessages,
        *,
        tokenize: Literal[True],
        add_generation_prompt: bool = True,
        enable_thinking: bool | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        **variables: object,
    ) -> list[int]: ...

    def apply_chat_template(
        self,
        messages: ChatMessages,
        *,
        tokenize: bool = False,
        add_generation_prompt: bool = True,
        enable_thinking: bool | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        **variables: object,
    ) -> str | list[int]:
        """The prompt for messages in the OpenAI form, as text, or as tokens with `tokenize`.

        In tokens a special token that a message only writes about is words; in text nobody can
        tell the two apart. `enable_thinking` None is the template's default; `variables` go to the
        template. Raises TemplateError, and UsageError for what is no message.
        """
        if isinstance(messages, str | Mapping):
            raise UsageError("a chat is a list of messages")
        rendered = self._opened.template.render(
            [Message.from_dict(message) for message in messages],
            think=enable_thinking,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            extra=variables,
        )
        if not tokenize:
            return rendered.text
        return self._opened.loaded.tokenize(rendered.pieces)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, as `generate` evaluates it: with a BOS where the model has one."""
        return self._opened.loaded.tokenize([PromptPiece(text)])

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones included. Raises UsageError for what is no token."""
        return self._opened.loaded.detokenize(tokens)


class GenieXLLM:
    """A loaded model; free it with `close`, or use it in a `with` statement."""

    def __init__(self, opened: OpenModel) -> None:
        self._opened = opened
        self._reuse = True
        self.tokenizer = Tokenizer(opened)

    @property
    def name(self) -> str:
        """`org/repo:precision`, or the path it was loaded from."""
        return self._opened.resolved.name

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the load has to say: a choice that was not met, speculation that is not set up."""
        return warnings_of(self._opened, _KEYWORDS)

    @overload
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[False] = False,
        **options: Unpack[Generating],
    ) -> GenerateOutput: ...

    @overload
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[True],
        **options: Unpack[Generating],
    ) -> TextIteratorStreamer: ...

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stream: bool = False,
        **options: Unpack[Generating],
    ) -> GenerateOutput | TextIteratorStreamer:
        """Go on from a prompt as it stands: text in which special tokens count, or tokens.

        Raises ContextLengthError, and UsageError for values that cannot be, at once;
        GenerationError later; TypeError for an option that `Generating` does not name.
        """
        unknown = options.keys() - Generating.__annotations__.keys()
        if unknown:
            raise TypeError(f"generate() has no argument `{min(unknown)}`")
        with told_in(_KEYWORDS):
            events = self._start(prompt, self._answering(options))
        streamer = TextIteratorStreamer(events, self)
        self._reuse = True
        return streamer if stream else streamer.output

    def _answering(self, options: Generating) -> AnswerOptions:
        given: dict[str, Any] = dict(options)
        most = given.pop("max_new_tokens", MAX_NEW_TOKENS)
        limits.check("max_tokens", most, "max_new_tokens")
        stop = given.pop("stop", None)
        stop = () if stop is None else stop
        if not isinstance(stop, Sequence):
            raise UsageError(f"`stop` takes a text, or several, not {type(stop).__name__}")
        if given.pop("do_sample", None) is False:
            given["temperature"] = 0.0
        sampling = SamplingOptions(**given)
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        return AnswerOptions(sampling, most, stops, reuse_prefix=self._reuse)

    def _start(self, prompt: str | Sequence[int], options: AnswerOptions) -> "_Thinking":
        loaded = self._opened.loaded
        if not isinstance(prompt, Sequence):
            raise UsageError(f"a prompt is a text, or tokens, not {type(prompt).__name__}")
        formats = formats_in(loaded.info.chat_template)
        text = prompt if isinstance(prompt, str) else loaded.detokenize(prompt)
        opened = open_format(text, formats)
        splitter = ReasoningSplitter(opened is not None, (opened,) if opened else formats)
        return _Thinking(self._opened.complete(prompt, options), splitter)

    def reset(self) -> None:
        """Have the next prompt evaluated as a whole, as if nothing had been said before.

        What is reused is what is the same, but for rounding: an answer of a compiled bundle repeats
        for its seed only where this is called before each prompt.
        """
        self._reuse = False

    def close(self) -> None:
        """Free the model. May be called twice."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AutoModelForCausalLM:
    """Where models come from: `from_pretrained` is its one door."""

    @staticmethod
    def from_pretrained(
        name_or_path: str | Path,
        *,
        precision: str | None = None,
        device_map: str | Mapping[str, str] = "auto",
        n_ctx: int = 0,
        n_gpu_layers: int = -1,
        n_threads: int | None = None,
        spec_type: str | None = None,
        spec_draft_model: str | Path | None = None,
        spec_n_max: int | None = None,
        spec_n_min: int | None = None,
        spec_p_min: float | None = None,
        hf_token: str | None = None,
        local_files_only: bool = False,
        progress: Progress | None = None,
        data_dir: str | Path | None = None,
    ) -> GenieXLLM:
        """Load a model by name or path; what is not here is pulled, unless `local_files_only`.

        `device_map` is `auto`, a compute unit, or device names with commas. `n_ctx` is tokens, 0
        chooses. The draft of `spec_draft_model` is pulled too. Raises what
        `geniex.model_manager.ensure_cached` and `geniex.load` raise.
        """
        with told_in(_KEYWORDS):
            wish = read_wish(
                spec_type,
                spec_draft_model,
                draft_tokens=spec_n_max,
                draft_min=spec_n_min,
                draft_p_min=spec_p_min,
            )
        flags = {
            "data_dir": None if data_dir is None else str(data_dir),
            "compute": _compute(device_map),
            "nctx": n_ctx or None,
            "ngl": n_gpu_layers,
            "threads": n_threads,
        }
        with told_in(_KEYWORDS):
            settings = read_settings(flags, os.environ)
        name = _named(str(name_or_path), precision)

        def ensure(text: str, use: Use) -> None:
            if not local_files_only and local_path(text) is None:
                model_manager.ensure_cached(
                    text, use=use, hf_token=hf_token, progress=progress, data_dir=settings.data_dir
                )

        ensure(name, "model")
        # a bundle speculates with nothing
        if wish.draft is not None and find_local_model(name, settings).format == "gguf":
            ensure(wish.draft, "draft")
        with told_in(_KEYWORDS):
            opened = open_model(name, settings, wish=wish)
        log_notes(opened, _KEYWORDS)
        return GenieXLLM(opened)


class _Thinking:
    """The events of raw text, with what is thought in it parted from what is said."""

    def __init__(self, events: AnswerEvents, splitter: ReasoningSplitter) -> None:
        self._events = events
        self._splitter = splitter

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        said: dict[str, list[str]] = {"content": [], "reasoning": []}
        for event in self._events:
            ended = isinstance(event, Answer)
            parts = self._splitter.feed(event.text) if isinstance(event, Part) else []
            for part in self._splitter.finish() if ended else parts:
                said[part.kind].append(part.text)
                yield part
            if isinstance(event, Answer):
                content, reasoning = "".join(said["content"]), "".join(said["reasoning"])
                yield replace(event, content=content, reasoning=reasoning)

    def close(self) -> None:
        self._events.close()


def _compute(device_map: str | Mapping[str, str]) -> str | None:
    """The compute unit of a device map; None where it is to be chosen."""
    if isinstance(device_map, Mapping):
        units = set(device_map.values())
        if len(units) != 1:
            raise UsageError(
                "`device_map` puts parts of a model on several devices",
                hint="name one compute unit, or several devices with commas",
            )
        device_map = units.pop()
    return None if device_map == "auto" else device_map


def _named(name: str, precision: str | None) -> str:
    if precision is None:
        return name
    if local_path(name) is not None:
        raise UsageError(f"`{name}` is a path: it has the precision it has")
    return str(model_manager.full_ref(name, precision))
