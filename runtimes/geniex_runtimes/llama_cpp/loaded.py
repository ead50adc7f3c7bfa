"""What every model on borrowed weights does: say what it is, read tokens, and be closed once."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Self

from geniex_runtimes.contract import ModelInfo
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp import heap
from geniex_runtimes.llama_cpp.shelf import SHELF
from geniex_runtimes.llama_cpp.weights import Weights

_LONG = 1 << 20  # characters: a second of the tokenizer, and some ten times as many bytes


class Loaded(ABC):
    """A loan of weights with contexts on them. All methods may be called from any thread."""

    _info: ModelInfo

    def __init__(self, weights: Weights) -> None:
        """Takes over a loan of `weights`, unless making the model fails."""
        self._weights = weights
        self._lock = threading.Lock()
        self._closed = self._returned = False
        self._readers = 0  # of the vocabulary, without the lock
        self._read = threading.Condition(self._lock)
        self._long = threading.Lock()

    @property
    def info(self) -> ModelInfo:
        """The facts about this model."""
        return self._info

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids, special tokens included. Raises UsageError for a bad id."""
        with self._lock:
            self._check_open()
            self._weights.vocab.check(tokens)
            piece = self._weights.vocab.piece
            return b"".join(piece(token) for token in tokens).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, often part of a character. Raises UsageError for a bad id."""
        with self._lock:
            self._check_open()
            self._weights.vocab.check([token])
            return self._weights.vocab.piece(token)

    def free_contexts(self) -> None:
        """Free the contexts once they are not in use; the weights stay until `close`."""
        with self._lock:
            self._closed = True
            self._free_contexts()

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        self.free_contexts()
        with self._lock:
            while self._readers:
                self._read.wait()
            if not self._returned:
                self._returned = True
                SHELF.give_back(self._weights)
                heap.trim()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _free_contexts(self) -> None:
        """Called with the lock held; a second call does nothing."""

    @contextmanager
    def _reading(self, length: int) -> Iterator[None]:
        """Keep the weights alive while a text of `length` characters is read.

        Who reads a long one keeps others with long ones waiting, for the memory, and nobody else.
        Raises GenerationError when the model has been closed.
        """
        with self._long if length > _LONG else nullcontext():
            with self._lock:
                self._check_open()
                self._readers += 1
            try:
                yield
            finally:
                with self._lock:
                    self._readers -= 1
                    self._read.notify_all()

    def _check_open(self) -> None:
        """To be called with the lock held, which keeps the weights alive."""
        if self._closed:
            raise GenerationError(f"`{self._info.name}` has been closed", hint="load it again")
