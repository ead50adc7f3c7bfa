"""The runtime `llama_cpp`: loads GGUF files and answers from them."""

import logging
import queue
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import geniex_catalogue
from geniex_catalogue.errors import GenieXError, LoadError, UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.answer import Answer
from geniex_runtimes.contract import (
    Availability,
    Device,
    Embedding,
    Event,
    GenerationRequest,
    ModelInfo,
    PromptPiece,
)
from geniex_runtimes.emitter import Emitter
from geniex_runtimes.errors import ContextLengthError, GenerationError, RuntimeNotInstalledError
from geniex_runtimes.llama_cpp import (
    allocation,
    company,
    devices,
    huge_pages,
    library,
    soundness,
    tiling,
    trial,
)
from geniex_runtimes.llama_cpp.context import ContextOptions
from geniex_runtimes.llama_cpp.embedding import LlamaCppEmbedder
from geniex_runtimes.llama_cpp.engine import Engine
from geniex_runtimes.llama_cpp.isolated.model import IsolatedModel
from geniex_runtimes.llama_cpp.keepers import open_keeper
from geniex_runtimes.llama_cpp.loaded import Loaded
from geniex_runtimes.llama_cpp.sampling import Sampler, model_defaults, row_of_logits
from geniex_runtimes.llama_cpp.shelf import SHELF
from geniex_runtimes.llama_cpp.slot import Events, Task
from geniex_runtimes.llama_cpp.speculative import setup
from geniex_runtimes.llama_cpp.threads import Glance, Governor
from geniex_runtimes.llama_cpp.weights import BAD_WEIGHTS, Placement, Weights
from geniex_runtimes.memory import DEFAULT_CONTEXT
from geniex_runtimes.options import LoadOptions, SpeculativeOptions
from geniex_runtimes.request import filled, is_tokens

log = logging.getLogger("geniex.llama_cpp")

# characters per token of the context from which on a prompt's length is looked at first
_FAR_TOO_LONG = 16


class LlamaCppRuntime:
    """GGUF files on whatever devices the installed llama.cpp was built for."""

    name = "llama_cpp"
    formats = frozenset({"gguf"})

    def availability(self) -> Availability:
        """Whether llama-cpp-python is here and its library loads."""
        try:
            native = library.load()
        except RuntimeNotInstalledError as exc:
            return Availability(False, reason=exc.message)
        return Availability(True, version=native.version)

    def system_info(self) -> str:
        """What the library was built with, and which features of the CPU it uses.

        Raises RuntimeNotInstalledError.
        """
        return library.load().system_info()

    def devices(self) -> tuple[Device, ...]:
        """The devices that llama.cpp reports, the CPU among them."""
        return devices.list_devices()

    def load(
        self,
        model: ResolvedModel,
        options: LoadOptions,
        *,
        progress: Callable[[float], bool] | None = None,
    ) -> "LlamaCppModel | LlamaCppEmbedder | IsolatedModel":
        """Load in this process, or with `isolate` in a worker, where native faults end that alone.

        Models of the same files share a worker.
        """
        allocation.check(model, options)
        if options.isolate:
            return IsolatedModel(model, options, progress)
        return self.load_here(model, options, progress=progress)

    def load_here(
        self,
        model: ResolvedModel,
        options: LoadOptions,
        *,
        progress: Callable[[float], bool] | None = None,
    ) -> "LlamaCppModel | LlamaCppEmbedder":
        """Load weights, make a context and evaluate one token on it, so that faults show now.

        Weights that another model of this process has loaded from the same files are shared.
        """
        native = library.load()
        soundness.check(model.path, model.header)
        tiling.settle(model.name, model.header, options)
        _try_out(model, options)
        if options.embedding:
            options = replace(options, speculative=SpeculativeOptions())
        repacking = company.repacking(model.header, options)
        room = allocation.holds_copies(model, options)
        if repacking and not room:
            log.warning("%s: its weights stay as they are, for want of memory", model.name)
            repacking = False
        mapped = huge_pages.mapped(options, room=room)
        options = replace(options, extra_buffers=repacking, mmap=mapped)
        wanted = setup.checked(model, options)
        glance = Glance() if options.threads is None else None
        placement = Placement(
            options.devices,
            options.gpu_layers,
            options.extra_buffers,
            heads=wanted.heads or (options.keep_heads and setup.has_heads(model, options)),
            mlock=options.mlock,
            mmap=mapped,
        )
        weights = SHELF.borrow(native, model.files, placement, progress=progress)
        try:
            if options.embedding:
                return LlamaCppEmbedder(native, weights, model.name, options)
            return LlamaCppModel(native, weights, model, options, wanted, glance)
        except BaseException:
            SHELF.give_back(weights)
            raise


def _try_out(model: ResolvedModel, options: LoadOptions) -> None:
    """Load a file that is not known yet in a child first. Raises LoadError where that fails.

    The models that come with geniex are known, and a worker is a child already. Nothing is tried
    that the user trusts.
    """
    built_in = Path(geniex_catalogue.__file__).parent
    if not options.tries_out or model.path.is_relative_to(built_in):
        return
    mode: trial.Alone = trial.EMBEDDING if options.embedding else trial.PLAIN
    trial.check(trial.of(model, options, mode), options.data_dir)


class LlamaCppModel(Loaded):
    """A loaded GGUF model: weights, one context, and the engine on it."""

    def __init__(
        self,
        native: library.Library,
        weights: Weights,
        model: ResolvedModel,
        options: LoadOptions,
        wanted: setup.Wanted,
        glance: Glance | None,
    ) -> None:
        """`glance` began before the load; without one the number of threads is fixed."""
        super().__init__(weights)
        name = model.name
        self._native = native
        trained = weights.training_context or DEFAULT_CONTEXT
        length = options.context_length or min(trained, DEFAULT_CONTEXT)
        governor = Governor(start=glance.free_cores) if glance is not None else None
        context_options = ContextOptions(
            length=length,
            slots=options.slots,
            threads=options.threads or (governor.threads if governor else 1),
            compute=options.compute,
            kv_type=options.kv_type,
            flash_attention=options.flash_attention,
        )
        self._speculation = setup.Speculation(
            native,
            weights,
            wanted,
            options,
            context_options,
        )
        self._context = self._speculation.context
        self._speculative = self._speculation.wanted.options
        vocab = weights.vocab
        self._info = ModelInfo(
            name=name,
            runtime=LlamaCppRuntime.name,
            compute=options.compute,
            devices=options.devices,
            context_length=self._context.length,
            slots=options.slots,
            chat_template=model.chat_template or weights.chat_template,
            bos_token=vocab.text(vocab.bos),
            eos_token=vocab.text(vocab.eos),
            control_tokens=vocab.control_tokens,
            end_tokens=vocab.end_tokens,
            sampling_defaults=model_defaults(weights.metadata),
            speculation=self._speculative.types,
            warnings=self._speculation.wanted.warnings,
            vocab_size=vocab.size,
            training_context=weights.training_context or None,
        )
        try:
            self._warm_up(max(vocab.bos, 0))
        except GenieXError as exc:
            self._speculation.close()
            raise LoadError(
                f"`{name}` loads but cannot be evaluated: {exc.message}", hint=exc.hint
            ) from exc
        limits = company.limits(native, self._context, vocab.size, model.header)
        keeper, failure = open_keeper(native, weights, self._context, model, options)
        if keeper is not None:
            self._info = replace(
                self._info, restored_tokens=len(keeper.tokens), restore_failure=failure
            )
        self._engine = Engine(
            native,
            weights,
            self._context,
            governor,
            self._speculation.speculator,
            limits,
            keeper,
        )

    def _warm_up(self, token: int) -> None:
        """Evaluate one token. Raises GenerationError, also for weights that give no numbers."""
        self._context.warm_up(token)
        logits = row_of_logits(self._native, self._context.handle, 0, self._weights.vocab.size)
        if np.isnan(logits).any():
            raise GenerationError("its weights give no numbers (NaN)", hint=BAD_WEIGHTS)

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one.

        Raises GenerationError when the model has been closed.
        """
        with self._reading(sum(len(piece.text) for piece in prompt)):
            return self._weights.vocab.tokenize(prompt)

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> Embedding:
        """Raises UsageError: a model that was loaded to answer in text gives no vectors."""
        raise UsageError(f"`{self._info.name}` was loaded to answer in text, not for embeddings")

    def generate(self, request: GenerationRequest) -> Answer:
        """Start a generation.

        Raises ContextLengthError for a prompt that does not fit, UsageError for an empty prompt,
        an unknown token or a grammar that llama.cpp does not accept.
        """
        events: queue.SimpleQueue[Event | Exception] = queue.SimpleQueue()
        return Answer(events, self.start(request, events))

    def start(self, request: GenerationRequest, events: Events) -> Callable[[], None]:
        """Start a generation whose events go to `events`; what it gives cancels it.

        Raises as `generate`.
        """
        prompt = request.prompt
        if is_tokens(prompt):
            tokens = list(prompt)
        else:
            self._check_length(prompt)  # type: ignore[arg-type]
            tokens = self.tokenize(prompt)  # type: ignore[arg-type]
        if not tokens:
            raise UsageError("the prompt is empty")
        self._weights.vocab.check(tokens)
        if len(tokens) > self._context.length:
            raise ContextLengthError(len(tokens), self._context.length)
        with self._lock:
            self._check_open()
            return self._started(self._task(request, tokens, events))

    def _started(self, task: Task) -> Callable[[], None]:
        engine = self._engine
        try:
            engine.submit(task)
        except GenieXError:
            task.sampler.close()
            raise
        return lambda: engine.cancel(task)

    def _check_length(self, prompt: Sequence[PromptPiece]) -> None:
        """Refuse what is far too long before it is tokenized, which takes seconds for megabytes."""
        length = self._context.length
        if sum(len(piece.text) for piece in prompt) > _FAR_TOO_LONG * length:
            with self._lock:
                self._check_open()
                least = self._weights.vocab.at_least(prompt)
            if least > length:
                raise ContextLengthError(least, length, at_least=True)

    def _task(self, request: GenerationRequest, tokens: list[int], events: Events) -> Task:
        sampling = filled(request.sampling, self._info.sampling_defaults)
        return Task(
            prompt=tokens,
            sampler=Sampler(
                self._native, self._weights.vocab, sampling, tokens, self._context.length
            ),
            emitter=Emitter(request.stop),
            max_tokens=request.max_tokens,
            logprobs=request.logprobs,
            reuse_prefix=request.reuse_prefix,
            counted=request.counted,
            speculative=self._narrowed(request.speculative),
            events=events,
        )

    def _narrowed(self, asked: SpeculativeOptions | None) -> SpeculativeOptions:
        """What a request gets of the speculation that was set up."""
        if asked is None:
            return self._speculative
        types = self._speculative.types if asked.types else ()
        return replace(asked, types=types, n_max=min(asked.n_max, self._speculative.n_max))

    def _free_contexts(self) -> None:
        self._engine.close()
        self._speculation.close()
