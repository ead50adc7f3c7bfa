"""A scripted runtime: the faces are tested and tried with it in milliseconds, without a model."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from geniex_catalogue.errors import GenieXError, LoadError, UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    SPEC_FALLBACK,
    Availability,
    Device,
    Done,
    Embedding,
    Event,
    FinishReason,
    GenerationRequest,
    ModelInfo,
    Profile,
    PromptPiece,
    SpecState,
    TokenLogprob,
)
from geniex_runtimes.errors import ContextLengthError, GenerationError, SpeculativeError
from geniex_runtimes.fake_text import FakeText
from geniex_runtimes.options import LoadOptions

BOS = 256
EOS = 257
VECTOR = 8  # values of an embedding
_SPECIAL = {BOS: "<s>", EOS: "</s>"}

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Script:
    """One generation: every piece is one token; times are seconds.

    `prefill_error` comes in place of the first piece, `error` after `error_after` pieces. `drafts`
    are (proposed, accepted) of each step, reported where speculation is on, with `spec_state` and
    `spec_reason`.
    """

    pieces: tuple[str | bytes, ...] = ("Hello", ", ", "world", "!")
    prefill_delay: float = 0.0
    delay: float = 0.0
    prefill_error: GenieXError | None = None
    error: GenieXError | None = None
    error_after: int = 0
    drafts: tuple[tuple[int, int], ...] = ()
    spec_state: SpecState = "on"
    spec_reason: str = ""


class FakeRuntime:
    """Loads anything in no time. The n-th generation follows the n-th script, the last ones repeat.

    `load_error` comes after `load_delay` seconds instead of a model; `loads` are the options that
    models were loaded with, in order. Speculation is always set up, unless `spec_failure` says why
    it is not.
    """

    def __init__(
        self,
        *scripts: Script,
        name: str = "fake",
        formats: frozenset[str] = frozenset({"gguf"}),
        devices: Sequence[Device] | None = None,
        context_length: int = 4096,
        chat_template: str | None = CHAT_TEMPLATE,
        load_delay: float = 0.0,
        load_error: GenieXError | None = None,
        spec_failure: str = "",
    ) -> None:
        self.name = name
        self.formats = formats
        self.scripts = scripts or (Script(),)
        self.loads: list[LoadOptions] = []
        self._devices = (Device("CPU", "scripted", "cpu", name),) if devices is None else devices
        self._context_length = context_length
        self._chat_template = chat_template
        self._load_delay = load_delay
        self._load_error = load_error
        self._spec_failure = spec_failure

    def availability(self) -> Availability:
        """Always there."""
        return Availability(True, version="0")

    def devices(self) -> tuple[Device, ...]:
        """The devices it was made with; a CPU by default."""
        return tuple(self._devices)

    def load(
        self,
        model: ResolvedModel,
        options: LoadOptions,
        *,
        progress: Callable[[float], bool] | None = None,
    ) -> "FakeModel":
        """A model that follows the scripts. Raises LoadError when given up, or `load_error`.

        Raises SpeculativeError where speculation is required and to fail.
        """
        for step in range(5):
            if progress is not None and not progress(step / 4):
                raise LoadError(f"loading `{model.name}` was given up")
            time.sleep(self._load_delay / 5)
        if self._load_error is not None:
            raise self._load_error
        self.loads.append(options)
        speculative = options.speculative
        failed = bool(speculative.types and self._spec_failure)
        if failed and speculative.require:
            raise SpeculativeError(self._spec_failure)
        info = ModelInfo(
            name=model.name,
            runtime=self.name,
            compute=options.compute,
            devices=options.devices,
            context_length=options.context_length or self._context_length,
            slots=options.slots,
            chat_template=self._chat_template,
            bos_token=_SPECIAL[BOS],
            eos_token=_SPECIAL[EOS],
            control_tokens=frozenset(_SPECIAL.values()),
            end_tokens=frozenset({_SPECIAL[EOS]}),
            speculation=() if failed else speculative.types,
            warnings=(f"{SPEC_FALLBACK}: {self._spec_failure}",) if failed else (),
            vocab_size=EOS + 1,
            training_context=self._context_length,
            embedding=options.embedding,
        )
        return FakeModel(info, self.scripts)


class FakeModel:
    """A model whose answers are written down. A token is a byte of the prompt, 256 is BOS.

    `requests` are the generations that were started, in order; `closed` tells whether it is freed,
    `contexts_freed` whether it was first left with its weights alone.
    """

    def __init__(self, info: ModelInfo, scripts: Sequence[Script]) -> None:
        self._info = info
        self._scripts = scripts
        self._lock = threading.Lock()
        self._running: list[FakeGeneration] = []
        self._slot: list[int] = []
        self.requests: list[GenerationRequest] = []
        self.closed = False
        self.contexts_freed = False

    @property
    def info(self) -> ModelInfo:
        """The facts about this model."""
        return self._info

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """BOS, then the bytes of the text; `</s>` is one token where special tokens count."""
        tokens = [BOS]
        for piece in prompt:
            parts = [piece.text] if piece.literal else piece.text.split(_SPECIAL[EOS])
            for index, part in enumerate(parts):
                tokens += [EOS] * (index > 0) + list(part.encode("utf-8", "replace"))
        return tokens

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids. Raises UsageError for an id above 257 or below 0."""
        return b"".join(self.token_bytes(token) for token in tokens).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token. Raises UsageError as `detokenize`."""
        _check([token])
        return _SPECIAL[token].encode() if token in _SPECIAL else bytes([token])

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> Embedding:
        """Vectors made of how often which bytes occur: equal texts have equal ones."""
        if not self._info.embedding:
            raise UsageError(f"`{self._info.name}` was loaded to answer in text")
        if self.closed:
            raise GenerationError("the model is closed")
        inputs = [
            self.tokenize([PromptPiece(text, literal=True)]) if isinstance(text, str) else text
            for text in texts
        ]
        for tokens in inputs:
            if not tokens:
                raise UsageError("a text to embed is empty")
            _check(tokens)
            if len(tokens) > self._info.context_length:
                raise ContextLengthError(len(tokens), self._info.context_length)
        return Embedding(tuple(map(_vector, inputs)), sum(map(len, inputs)))

    def generate(self, request: GenerationRequest) -> "FakeGeneration":
        """Start the next script. Raises ContextLengthError, UsageError or GenerationError."""
        pieces = [piece for piece in request.prompt if isinstance(piece, PromptPiece)]
        ids = [token for token in request.prompt if isinstance(token, int)]
        tokens = self.tokenize(pieces) if pieces else ids
        if self._info.embedding:
            raise UsageError(f"`{self._info.name}` was loaded for embeddings alone")
        if not tokens:
            raise UsageError("the prompt is empty")
        _check(tokens)
        if len(tokens) > self._info.context_length:
            raise ContextLengthError(len(tokens), self._info.context_length)
        with self._lock:
            if self.closed or self.contexts_freed:
                raise GenerationError("the model is closed")
            script = self._scripts[min(len(self.requests), len(self._scripts) - 1)]
            self.requests.append(request)
            cached = _common(self._slot, tokens) if request.reuse_prefix else 0
            self._slot = tokens
            # the last token of a known prompt is evaluated again
            cached = min(cached, len(tokens) - 1)
            room = self._info.context_length - len(tokens)
            asked = request.speculative
            speculates = bool(self._info.speculation) and (asked is None or bool(asked.types))
            generation = FakeGeneration(script, request, len(tokens), cached, room, speculates)
            self._running.append(generation)
        return generation

    def free_contexts(self) -> None:
        """End what is running, and take no more."""
        self.contexts_freed = True
        self._end_all()

    def close(self) -> None:
        """End what is running; a second call does nothing."""
        self.closed = True
        self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            running, self._running = self._running, []
        for generation in running:
            generation.stop()


class FakeGeneration:
    """A running script: text, then one `Done`. Times in its profile are real."""

    def __init__(
        self,
        script: Script,
        request: GenerationRequest,
        prompt: int,
        cached: int,
        room: int,
        speculates: bool,
    ) -> None:
        self._script = script
        self._speculates = speculates
        self._request = request
        self._prompt = prompt
        self._cached = cached
        self._room = room
        self._generated = 0
        self._cancelled = threading.Event()
        self._closed = False
        self._events = self._run()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._closed:
            raise StopIteration
        return next(self._events)

    def close(self) -> None:
        """Cancel, and give no more events."""
        self._closed = True
        self._cancelled.set()

    def stop(self) -> None:
        """End with `cancelled` at the next event, also when the model is closed."""
        self._cancelled.set()

    def _run(self) -> Iterator[Event]:
        started = time.monotonic()
        self._cancelled.wait(self._script.prefill_delay)
        if self._script.prefill_error is not None:
            raise self._script.prefill_error
        prefilled = first = time.monotonic()
        text = FakeText(self._request.stop)
        reason = self._limit()
        for index, piece in enumerate(self._script.pieces):
            self._cancelled.wait(self._script.delay)
            reason = "user" if self._cancelled.is_set() else reason
            if reason:
                break
            self._fail(index)
            data = piece.encode() if isinstance(piece, str) else piece
            self._generated += 1
            first = time.monotonic() if index == 0 else first
            event = text.add(data, _logprob(data, index, self._request.logprobs))
            if event is not None:
                yield replace(event, tokens=self._generated)
            reason = "stop" if text.stopped else self._limit()
        else:
            self._fail(len(self._script.pieces))
        if (event := text.rest()) is not None:
            yield event
        yield self._done(reason or "eos", started, prefilled, first)

    def _limit(self) -> str:
        """Why no further token is allowed; empty while one is."""
        if self._request.max_tokens is not None and self._generated >= self._request.max_tokens:
            return "length"
        return "context" if self._generated >= self._room else ""

    def _fail(self, index: int) -> None:
        if self._script.error is not None and index >= self._script.error_after:
            raise self._script.error

    def _done(self, reason: str, started: float, prefilled: float, first: float) -> Done:
        finish: FinishReason = "stop"
        if reason in ("length", "context"):
            finish = "length"
        elif reason == "user":
            finish = "cancelled"
        return Done(
            finish,
            Profile(
                ttft=first - started,
                prompt_time=prefilled - started,
                decode_time=time.monotonic() - prefilled,
                prompt_tokens=self._prompt,
                cached_tokens=self._cached,
                generated_tokens=self._generated,
                stop_reason=reason,
                **self._drafting(),
            ),
        )

    def _drafting(self) -> dict[str, Any]:
        """The profile's facts about the script's drafts; a step is a millisecond of each kind."""
        if not self._speculates:
            return {}
        steps = self._script.drafts
        longest = max((accepted for _, accepted in steps), default=0)
        return {
            "draft_steps": len(steps),
            "draft_proposed": sum(proposed for proposed, _ in steps),
            "draft_accepted": sum(accepted for _, accepted in steps),
            "accepted_at": tuple(
                sum(accepted > place for _, accepted in steps) for place in range(longest)
            ),
            "draft_time": len(steps) / 1000,
            "verify_time": len(steps) / 1000,
            "spec_state": self._script.spec_state,
            "spec_reason": self._script.spec_reason,
        }


def _logprob(data: bytes, index: int, alternatives: int | None) -> TokenLogprob | None:
    """Made up, but of the right shape: later tokens are less likely, as are later alternatives."""
    if alternatives is None:
        return None
    chosen = -0.1 * (index + 1)
    top = tuple(TokenLogprob(n, data if n == 0 else b"?", chosen - n) for n in range(alternatives))
    return TokenLogprob(data[0] if data else EOS, data, chosen, top)


def _vector(tokens: Sequence[int]) -> tuple[float, ...]:
    counts = [1.0] * VECTOR
    for token in tokens:
        counts[token % VECTOR] += 1
    length = math.hypot(*counts)
    return tuple(count / length for count in counts)


def _check(tokens: Sequence[int]) -> None:
    bad = next((token for token in tokens if not 0 <= token <= EOS), None)
    if bad is not None:
        raise UsageError(f"token {bad} is not in the vocabulary of {EOS + 1} tokens")


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
