"""Vectors of texts: a model whose contexts pool hidden states instead of giving logits."""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from geniex_catalogue.errors import GenieXError, LoadError, UsageError
from geniex_runtimes.contract import (
    Embedding,
    Generation,
    GenerationRequest,
    ModelInfo,
    PromptPiece,
)
from geniex_runtimes.errors import ContextLengthError, GenerationError
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import CPU_ROWS
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.loaded import Loaded
from geniex_runtimes.llama_cpp.threads import Governor
from geniex_runtimes.llama_cpp.weights import BAD_WEIGHTS, Weights
from geniex_runtimes.memory import DEFAULT_CONTEXT
from geniex_runtimes.options import LoadOptions

RUNTIME = "llama_cpp"

# a text is evaluated at once, so a context must hold the longest: it grows when one is longer
_LEAST_ROWS = 512
_SEQUENCES = 16  # texts in one evaluation

Vector: TypeAlias = npt.NDArray[np.float32]


class PoolingContext:
    """A native context that gives one vector per sequence. Belongs to one thread at a time."""

    def __init__(self, library: Library, weights: Weights, rows: int, pooling: int) -> None:
        """Room for `rows` tokens at once, a power of two: llama.cpp dies of odd numbers.

        Raises LoadError when they do not fit.
        """
        api = library.api
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = rows
        params.n_seq_max = _SEQUENCES
        # sequences share the cells, so that one may have them all
        params.kv_unified = True
        params.embeddings = True
        params.pooling_type = pooling
        params.no_perf = True
        library.recent.clear()
        handle = api.llama_init_from_model(weights.handle, params)
        if not handle:
            raise LoadError(
                f"llama.cpp could not make a context for embeddings of {rows} tokens: "
                f"{library.complaints()}"
            )
        self.rows = rows
        self.handle: Any = handle
        self._library = library
        self._width = weights.hidden_size
        self._encodes = bool(api.llama_model_has_encoder(weights.handle)) and not bool(
            api.llama_model_has_decoder(weights.handle)
        )
        self._batch = Batch(library, rows)

    def vectors(self, texts: Sequence[Sequence[int]], threads: int) -> list[Vector]:
        """The pooled states of texts that fit together. Raises GenerationError."""
        api = self._library.api
        api.llama_set_n_threads(self.handle, threads, threads)
        memory = api.llama_get_memory(self.handle)
        if memory:
            api.llama_memory_clear(memory, True)
        self._batch.clear()
        for sequence, tokens in enumerate(texts):
            self._batch.add(sequence, 0, tokens, all_logits=True)
        evaluate = api.llama_encode if self._encodes else self._library.decode
        code = evaluate(self.handle, self._batch.finish())
        if code != 0:
            raise GenerationError(
                f"llama.cpp could not evaluate {self._batch.rows} rows (code {code}): "
                f"{self._library.complaints()}"
            )
        return [self._vector(sequence) for sequence in range(len(texts))]

    def _vector(self, sequence: int) -> Vector:
        address = self._library.api.llama_get_embeddings_seq(self.handle, sequence)
        if not address:
            raise GenerationError("llama.cpp gave no vector for a text")
        raw = ctypes.cast(address, ctypes.POINTER(ctypes.c_float * self._width)).contents
        vector: Vector = np.array(raw, np.float32)
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length):
            raise GenerationError("the model's weights give no numbers (NaN)", hint=BAD_WEIGHTS)
        return vector / np.float32(length) if length > 0 else vector

    def close(self) -> None:
        """Free the context."""
        handle, self.handle = self.handle, None
        if handle is not None:
            self._library.api.llama_free(handle)


class LlamaCppEmbedder(Loaded):
    """A model that was loaded for embeddings alone."""

    def __init__(self, library: Library, weights: Weights, name: str, options: LoadOptions) -> None:
        """Takes over a loan of `weights`. Raises LoadError for a model that gives no vectors."""
        super().__init__(weights)
        self._library = library
        self._governor = Governor() if options.threads is None else None
        self._threads = options.threads or (self._governor.threads if self._governor else 1)
        trained = weights.training_context or DEFAULT_CONTEXT
        # an encoder has no positions beyond those it was trained for
        asked = options.context_length or DEFAULT_CONTEXT
        length = min(trained, asked)
        self._pooling, note = pooling_of(library, weights, name)
        vocab = weights.vocab
        self._info = ModelInfo(
            name=name,
            runtime=RUNTIME,
            compute=options.compute,
            devices=options.devices,
            context_length=length,
            slots=options.slots,
            chat_template=None,
            bos_token=vocab.text(vocab.bos),
            eos_token=vocab.text(vocab.eos),
            warnings=note,
            vocab_size=vocab.size,
            training_context=weights.training_context or None,
            embedding=True,
        )
        # fewer on a CPU: a text's numbers must not depend on what comes along with it
        self._together = CPU_ROWS if options.compute == "cpu" else _LEAST_ROWS
        self._context = self._made(_LEAST_ROWS)
        try:
            self._context.vectors([[max(vocab.bos, 0)]], self._threads)
        except GenieXError as exc:
            self._context.close()
            raise LoadError(
                f"`{name}` loads but gives no vectors: {exc.message}", hint=exc.hint
            ) from exc

    def _made(self, rows: int) -> PoolingContext:
        return PoolingContext(self._library, self._weights, rows, self._pooling)

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a text as `embed` evaluates it, with what the model puts around one."""
        text = "".join(piece.text for piece in prompt)
        with self._reading(len(text)):
            return self._weights.vocab.tokenize_whole(text)

    def generate(self, request: GenerationRequest) -> Generation:
        """Raises UsageError: it gives vectors and no text."""
        raise UsageError(f"`{self._info.name}` was loaded for embeddings, and gives no text")

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> Embedding:
        """The vectors of texts, or of token ids as they are.

        Special tokens in a text are text. Raises UsageError for an empty one and for an unknown
        token, ContextLengthError for one that is too long, GenerationError.
        """
        with self._reading(sum(map(len, texts))):
            inputs = [self._tokens(text) for text in texts]
        vectors: list[tuple[float, ...]] = []
        for together in _packed(inputs, self._together):
            # let go between batches: others get their turn
            with self._lock:
                self._check_open()
                vectors += [tuple(v.tolist()) for v in self._evaluate(together)]
        return Embedding(tuple(vectors), sum(map(len, inputs)))

    def _tokens(self, text: str | Sequence[int]) -> Sequence[int]:
        vocab, most = self._weights.vocab, self._info.context_length
        tokens = vocab.tokenize_whole(text) if isinstance(text, str) else list(text)
        if not tokens or text == "":
            raise UsageError("a text to embed is empty")
        vocab.check(tokens)
        if len(tokens) > most:
            raise ContextLengthError(len(tokens), most)
        return tokens

    def _evaluate(self, texts: Sequence[Sequence[int]]) -> list[Vector]:
        rows = sum(map(len, texts))
        if rows > self._context.rows:
            # the new one first: where it does not fit, the old one still serves
            grown = self._made(1 << (rows - 1).bit_length())
            self._context.close()
            self._context = grown
        if self._governor is not None and self._governor.look():
            self._threads = self._governor.threads
        return self._context.vectors(texts, self._threads)

    def _free_contexts(self) -> None:
        self._context.close()


def pooling_of(library: Library, weights: Weights, name: str) -> tuple[int, tuple[str, ...]]:
    """How the model's states become one vector, and what there is to say about it.

    Raises LoadError for a model that ranks texts against each other.
    """
    api = library.api
    architecture = weights.metadata("general.architecture")
    named = weights.metadata(f"{architecture}.pooling_type") or "0"
    kind = int(named) if named.isdigit() else api.LLAMA_POOLING_TYPE_NONE
    if kind == api.LLAMA_POOLING_TYPE_RANK:
        raise LoadError(
            f"`{name}` is a reranker: it scores a text against a query, and gives no vectors",
            hint="use an embedding model",
        )
    if kind != api.LLAMA_POOLING_TYPE_NONE:
        return kind, ()
    causal = weights.metadata(f"{architecture}.attention.causal") != "false"
    if not causal:
        return api.LLAMA_POOLING_TYPE_MEAN, ()
    note = f"`{name}` was not made for embeddings: its vectors are the mean of its hidden states"
    return api.LLAMA_POOLING_TYPE_MEAN, (note,)


def _packed(texts: Sequence[Sequence[int]], most: int) -> Iterator[list[Sequence[int]]]:
    """Texts in order, as many together as have up to `most` tokens; a longer one is alone."""
    together: list[Sequence[int]] = []
    for text in texts:
        if together and (len(together) == _SEQUENCES or sum(map(len, together)) + len(text) > most):
            yield together
            together = []
        together.append(text)
    if together:
        yield together
