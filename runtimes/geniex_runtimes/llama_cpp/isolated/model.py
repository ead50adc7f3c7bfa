"""A model that a worker has in memory: the runtime's contract, kept across the border."""

import array
import base64
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self, TypeVar

from geniex_catalogue.errors import GenieXError, LoadError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.answer import Answer
from geniex_runtimes.contract import Embedding, GenerationRequest, ModelInfo, PromptPiece
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.isolated import loading, messages
from geniex_runtimes.llama_cpp.isolated.inbox import News
from geniex_runtimes.llama_cpp.isolated.remote import Ask, Remote
from geniex_runtimes.llama_cpp.isolated.roster import ROSTER, files_of
from geniex_runtimes.options import LoadOptions

log = logging.getLogger("geniex.llama_cpp")

R = TypeVar("R")


class IsolatedModel:
    """See contract.LoadedModel. After its worker has died the next request starts another one."""

    def __init__(
        self,
        model: ResolvedModel,
        options: LoadOptions,
        progress: Callable[[float], bool] | None = None,
    ) -> None:
        """Load it in a worker. Raises LoadError, and what a load in this process raises."""
        self._model = model
        self._options = options
        self._files = files_of(model.files)
        self._lock = threading.Lock()
        self._closed = self._returned = False
        self._remote: Remote | None
        self._remote, self._number, self._info = loading.load(model, options, progress)

    @property
    def info(self) -> ModelInfo:
        """The facts about this model."""
        return self._info

    @property
    def worker_pid(self) -> int | None:
        """The process id of its worker; None between a crash and the next request."""
        remote = self._remote
        return remote.pid if remote is not None and remote.alive else None

    def generate(self, request: GenerationRequest) -> Answer:
        """Start a generation. Raises as the engine in this process, and WorkerCrashedError."""
        request = replace(request, prompt=tuple(request.prompt))  # type: ignore[arg-type]
        started = time.perf_counter()
        remote, number, waited = self._seat()
        late = time.perf_counter() - started if waited else 0.0
        return remote.generate(number, request, late)

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a prompt. Raises GenerationError when the model has been closed."""
        pieces = tuple(prompt)
        report = self._call(lambda number, model: messages.Tokenize(number, model, pieces))
        return list(_expected(report, messages.Tokens).tokens)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids, special tokens included. Raises UsageError for a bad id."""
        ids = tuple(tokens)
        report = self._call(lambda number, model: messages.Detokenize(number, model, ids))
        return _expected(report, messages.Text).text

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, often part of a character. Raises UsageError for a bad id."""
        report = self._call(lambda number, model: messages.TokenBytes(number, model, token))
        return _expected(report, messages.Bytes).data

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> Embedding:
        """The vectors of texts, or of token ids as they are. Raises as the contract says."""
        words: tuple[str, ...] | None = None
        ids: tuple[tuple[int, ...], ...] = ()
        if all(isinstance(text, str) for text in texts):
            words = tuple(map(str, texts))
        else:
            ids = tuple(tuple(one) for one in texts)  # type: ignore[arg-type]
        report = self._call(lambda number, model: messages.Embed(number, model, words, ids))
        found = _expected(report, messages.Vectors)
        floats = array.array("f", base64.b64decode(found.data)).tolist()
        width = len(floats) // max(1, found.count)
        vectors = (tuple(floats[at : at + width]) for at in range(0, len(floats), max(1, width)))
        return Embedding(tuple(vectors), found.tokens)

    def free_contexts(self) -> None:
        """Free the contexts; the weights stay in the worker until `close`."""
        self._closed = True  # a load that is on its way sees it
        with self._lock:
            self._free(kept=True)

    def close(self) -> None:
        """Free everything, the worker too where no other has it; a second call does nothing."""
        self._closed = True
        with self._lock:
            remote = self._remote
            if remote is None or self._returned:
                return
            self._free(kept=False)
            self._returned = True
            ROSTER.give_back(remote)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _free(self, *, kept: bool) -> None:
        """With the lock held."""
        remote = self._remote
        if remote is None or self._returned:
            return
        try:
            if remote.alive:
                remote.free(self._number, kept=kept)
        except GenieXError as exc:
            log.debug("`%s` was freed by the end of its worker: %s", self._model.name, exc.message)

    def _call(self, ask: Callable[[int, int], messages.Order]) -> News:
        remote, model, _ = self._seat()
        bound: Ask = lambda number: ask(number, model)  # noqa: E731
        return remote.call(bound)

    def _seat(self) -> tuple[Remote, int, bool]:
        """The worker, the model's number there, and whether it had to be loaded again for that."""
        with self._lock:
            self._check_open()
            if self._remote is not None and self._remote.alive:
                return self._remote, self._number, False
            return self._load_again(), self._number, True

    def _load_again(self) -> Remote:
        """After a worker's death. Raises LoadError, WorkerRestingError."""
        dead, self._remote = self._remote, None
        if dead is not None:
            dead.await_burial()
            ROSTER.give_back(dead)
        if files_of(self._model.files) != self._files:
            raise LoadError(
                f"`{self._model.name}` has changed since it was loaded, and its worker has ended",
                hint="load it again",
            )
        log.warning("starting a new worker for `%s`", self._model.name)
        remote, self._number, self._info = loading.load(
            self._model, self._options, lambda _: not self._closed
        )
        self._remote = remote
        return remote

    def _check_open(self) -> None:
        if self._closed:
            raise GenerationError(f"`{self._info.name}` has been closed", hint="load it again")


def _expected(report: News, kind: type[R]) -> R:
    if not isinstance(report, kind):
        raise GenerationError(f"the worker answered with {type(report).__name__}")
    return report
