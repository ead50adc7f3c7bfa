"""A bundle that a worker has in memory, and its running answers."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from geniex_catalogue.errors import UsageError
from geniex_runtimes.answer import Answer
from geniex_runtimes.contract import Embedding, GenerationRequest, ModelInfo, PromptPiece
from geniex_runtimes.errors import ContextLengthError
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt import protocol
from geniex_runtimes.qairt.foreman import Foreman, Task
from geniex_runtimes.qairt.gbnf import read
from geniex_runtimes.qairt.gbnf_lark import as_lark
from geniex_runtimes.qairt.vocabulary import Vocabulary
from geniex_runtimes.request import filled, is_tokens

_DEFAULTS = SamplingOptions(
    temperature=0.8, top_p=0.95, top_k=40, min_p=0.0, repetition_penalty=1.0
)


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

    def generate(self, request: GenerationRequest) -> Answer:
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
            sampling=with_defaults(request.sampling, self._info.sampling_defaults),
            max_tokens=request.max_tokens,
            stop=request.stop,
            logprobs=request.logprobs,
            reuse_prefix=request.reuse_prefix,
        )
        task = Task(order)
        self._foreman.submit(task)
        return Answer(task.events, lambda: self._foreman.cancel(task))

    def _tokens(self, prompt: Sequence[PromptPiece] | Sequence[int]) -> list[int]:
        if not prompt or is_tokens(prompt):
            return list(prompt)  # type: ignore[arg-type]
        return self.tokenize(prompt)  # type: ignore[arg-type]

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


def with_defaults(options: SamplingOptions, defaults: SamplingOptions) -> SamplingOptions:
    """`options` with every unset value taken from `defaults`, and what is unset there from ours."""
    return filled(filled(options, defaults), _DEFAULTS)
