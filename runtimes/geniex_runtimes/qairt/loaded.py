"""A bundle that a worker has in memory, and its running answers."""

import itertools
import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from geniex_catalogue.errors import ContextLengthError, UsageError
from geniex_runtimes.contract import (
    Done,
    Embedding,
    Event,
    GenerationRequest,
    ModelInfo,
    PromptPiece,
    SamplingOptions,
)
from geniex_runtimes.qairt import protocol
from geniex_runtimes.qairt.foreman import Foreman, Task
from geniex_runtimes.qairt.gbnf import read
from geniex_runtimes.qairt.gbnf_lark import as_lark
from geniex_runtimes.qairt.vocabulary import Vocabulary

_WAIT = 0.2  # seconds between looks for a signal while waiting for an event
_DEFAULTS = SamplingOptions(
    temperature=0.8, top_p=0.95, top_k=40, min_p=0.0, repetition_penalty=1.0
)
_SETTABLE = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class QairtModel:
    """A loaded bundle. Requests run one at a time; all methods may be called from any thread."""

    def __init__(self, info: ModelInfo, vocabulary: Vocabulary, foreman: Foreman) -> None:
        self._info = info
        self._vocabulary = vocabulary
        self._foreman = foreman
        self._numbers = itertools.count(1)

    @property
    def info(self) -> ModelInfo:
        """The facts about this model."""
        return self._info

    @property
    def worker_pid(self) -> int | None:
        """The process id of its worker; None between a crash and the next request."""
        return self._foreman.worker_pid

    def generate(self, request: GenerationRequest) -> "Answer":
        """Start a generation, or have it wait for those before it.

        Raises ContextLengthError for a prompt that does not fit, UsageError for an empty prompt or
        an unknown token or a grammar that is none, GenerationError when closed.
        """
        if request.sampling.grammar is not None:
            as_lark(read(request.sampling.grammar))
        tokens = self._tokens(request.prompt)
        if not tokens:
            raise UsageError("the prompt is empty")
        self._vocabulary.check(tokens)
        if len(tokens) > self._info.context_length:
            raise ContextLengthError(len(tokens), self._info.context_length)
        order = protocol.Generate(
            number=next(self._numbers),
            tokens=tuple(tokens),
            sampling=filled(request.sampling, self._info.sampling_defaults),
            max_tokens=request.max_tokens,
            stop=request.stop,
            logprobs=request.logprobs,
            reuse_prefix=request.reuse_prefix,
        )
        task = Task(order)
        self._foreman.submit(task)
        return Answer(task, self._foreman.cancel)

    def _tokens(self, prompt: Sequence[PromptPiece] | Sequence[int]) -> list[int]:
        pieces = [piece for piece in prompt if isinstance(piece, PromptPiece)]
        return self.tokenize(pieces) if pieces else [t for t in prompt if isinstance(t, int)]

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the bundle names one."""
        return self._vocabulary.tokenize(prompt)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids, special tokens included. Raises UsageError for a bad id."""
        return self._vocabulary.detokenize(tokens)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, often part of a character. Raises UsageError for a bad id."""
        self._vocabulary.check([token])
        return self._vocabulary.piece(token)

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> Embedding:
        """Raises UsageError: bundles answer in text."""
        raise UsageError(f"`{self._info.name}` answers in text; the runtime qairt embeds nothing")

    def save(self, folder: Path) -> None:
        """Write what the cache holds into an empty folder. Raises GenerationError."""
        self._foreman.do(protocol.Save(folder.absolute()))

    def restore(self, folder: Path) -> None:
        """Take what `save` wrote for the same bundle. Raises GenerationError."""
        self._foreman.do(protocol.Restore(folder.absolute()))

    def free_contexts(self) -> None:
        """Free everything: a worker has no weights to share."""
        self._foreman.close()

    def close(self) -> None:
        """Free everything, the worker too; a second call does nothing."""
        self._foreman.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Answer:
    """A running generation: iterate for its events, close to cancel it."""

    def __init__(self, task: Task, cancel: Callable[[Task], None]) -> None:
        self._task = task
        self._cancel = cancel
        self._done = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._done:
            raise StopIteration
        while True:
            try:
                event = self._task.events.get(timeout=_WAIT)
            except queue.Empty:
                continue  # a wait without an end would keep Windows from delivering Ctrl-C
            if isinstance(event, Exception):
                self._done = True
                raise event
            self._done = isinstance(event, Done)
            return event

    def stop(self) -> None:
        """End it early; the events go on to `Done`."""
        if not self._done:
            self._cancel(self._task)

    def close(self) -> None:
        """Cancel; nothing happens when the generation has ended."""
        if not self._done:
            self._done = True
            self._cancel(self._task)

    def __del__(self) -> None:
        self.close()


def filled(options: SamplingOptions, defaults: SamplingOptions) -> SamplingOptions:
    """`options` with every unset value taken from `defaults`, and what is unset there from ours."""
    for source in (defaults, _DEFAULTS):
        unset = {n: getattr(source, n) for n in _SETTABLE if getattr(options, n) is None}
        options = replace(options, **unset)
    return options
