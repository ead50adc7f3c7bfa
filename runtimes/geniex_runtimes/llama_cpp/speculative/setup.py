"""From speculative options to a context and a speculator, or to plain decoding and the reason."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from geniex_catalogue.errors import GenieXError, GGUFError, LoadError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import SPEC_FALLBACK
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp import soundness, trial
from geniex_runtimes.llama_cpp.context import Context, ContextOptions
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.shelf import SHELF
from geniex_runtimes.llama_cpp.speculative import pair
from geniex_runtimes.llama_cpp.speculative.controller import QUICK_STEP, Controller
from geniex_runtimes.llama_cpp.speculative.copying import CopyController
from geniex_runtimes.llama_cpp.speculative.drafter import Drafter
from geniex_runtimes.llama_cpp.speculative.exactness import exact_rows
from geniex_runtimes.llama_cpp.speculative.measure import measure, measure_rows
from geniex_runtimes.llama_cpp.speculative.misfit import Misfit
from geniex_runtimes.llama_cpp.speculative.model_drafter import Mode, ModelDrafter
from geniex_runtimes.llama_cpp.speculative.ngram import NgramMapK, NgramSimple
from geniex_runtimes.llama_cpp.speculative.ngram_mod import NgramMod
from geniex_runtimes.llama_cpp.speculative.sequence import DrafterSequence
from geniex_runtimes.llama_cpp.speculative.speculator import Speculator
from geniex_runtimes.llama_cpp.speculative.types import copies_only
from geniex_runtimes.llama_cpp.weights import Placement, Weights
from geniex_runtimes.options import LoadOptions, SpeculativeOptions

log = logging.getLogger("geniex.llama_cpp")

NGRAMS: dict[str, Callable[[], Drafter]] = {
    kind.name: kind for kind in (NgramSimple, NgramMapK, NgramMod)
}
# more rows in one decode round differently from one row on a CPU (docs/threads.md)
CPU_DRAFT_TOKENS = 6
# n-gram drafts cost nothing to propose and are often right as a whole, so they may be longer, as
# far as more rows are tried and found alike; well below the 64 rows of another attention kernel
CPU_COPY_TOKENS = 31
# a recurrent state that can be cut back is copied at each step, which shows where steps are quick:
# where drafts can gain less than this, the state is saved before the few that are tried instead
_WORTH_COPIES = 1.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to set up: no types where a pair was refused, which `warnings` then say."""

    options: SpeculativeOptions
    mode: Mode | None = None
    warnings: tuple[str, ...] = ()

    @property
    def heads(self) -> bool:
        """Whether the target is to be loaded with the heads in its file."""
        return self.mode in ("own", "chained")


def checked(model: ResolvedModel, options: LoadOptions) -> Wanted:
    """Check a pair by its metadata, before anything is loaded.

    Raises SpeculativeError for a pair that does not fit where speculation is required.
    """
    wanted = options.speculative
    if not wanted.types:
        return Wanted(wanted)
    warnings: list[str] = []
    most = CPU_COPY_TOKENS if copies_only(wanted.types) else CPU_DRAFT_TOKENS
    if options.compute == "cpu" and wanted.n_max > most:
        warnings.append(
            f"at most {most} draft tokens are used on a CPU, where more rows at once "
            "would round differently"
        )
        wanted = replace(wanted, n_max=most)
    try:
        _check_draft(options.draft)
        mode = _mode(model, options.draft, wanted.types)
        if mode is not None and options.tries_out:
            _try_out(model, options, mode)
    except SpeculativeError as exc:
        return _fallen(wanted, exc, tuple(warnings))
    return Wanted(wanted, mode, tuple(warnings))


def _check_draft(draft: ResolvedModel | None) -> None:
    """Raise SpeculativeError for a draft whose parts contradict each other."""
    try:
        if draft is not None:
            soundness.check(draft.path, draft.header)
    except GGUFError as exc:
        raise SpeculativeError(f"the draft cannot be used: {exc.message}", hint=exc.hint) from exc


def _try_out(model: ResolvedModel, options: LoadOptions, mode: Mode) -> None:
    """Use a pair in a child before it is used here; an ordinary small model is tried alone."""
    if mode != "simple":
        trial.check(trial.of(model, options, mode), options.data_dir)
        return
    assert options.draft is not None
    try:
        trial.check(trial.of(options.draft, options, trial.PLAIN), options.data_dir)
    except LoadError as exc:
        raise SpeculativeError(f"the draft cannot be used: {exc.message}") from exc


def has_heads(model: ResolvedModel, options: LoadOptions) -> bool:
    """Whether the model's file has heads that can be loaded and drafted with."""
    if model.header is None or not model.header.has_heads:
        return False
    try:
        mode = pair.check(model.header, model.path, None, None)
        if options.tries_out:
            trial.check(trial.of(model, replace(options, draft=None), mode), options.data_dir)
    except SpeculativeError:
        return False
    return True


def _mode(model: ResolvedModel, draft: ResolvedModel | None, types: tuple[str, ...]) -> Mode | None:
    """How the draft model of these types works; None where they need none."""
    if not {"draft-mtp", "draft-simple"} & set(types):
        return None
    if {"draft-mtp", "draft-simple"} <= set(types):
        raise SpeculativeError("`draft-simple` and `draft-mtp` cannot be used together")
    if model.header is None:
        raise SpeculativeError(f"`{model.name}` has no GGUF header to check a draft against")
    header, path = (draft.header, draft.path) if draft is not None else (None, None)
    if "draft-simple" in types:
        pair.check_simple(model.header, model.path, header, path)
        return "simple"
    return pair.check(model.header, model.path, header, path)


def _fallen(
    wanted: SpeculativeOptions, reason: GenieXError, warnings: tuple[str, ...] = ()
) -> Wanted:
    if wanted.require:
        raise reason
    log.warning("%s: %s", SPEC_FALLBACK, reason.message)
    return Wanted(SpeculativeOptions(), None, (*warnings, f"{SPEC_FALLBACK}: {reason.message}"))


class Speculation:
    """A target's context, with a speculator where one was wanted and could be set up."""

    def __init__(
        self,
        library: Library,
        weights: Weights,
        wanted: Wanted,
        load: LoadOptions,
        options: ContextOptions,
    ) -> None:
        """Make the contexts. Raises LoadError where even plain decoding cannot be set up."""
        self.speculator: Speculator | None = None
        self._drafter: Drafter | None = None
        self._draft_weights: Weights | None = None
        self.wanted = wanted
        if wanted.options.types:
            try:
                self._speculate(library, weights, load, options)
                return
            except GenieXError as exc:
                self.close()
                self.wanted = _fallen(wanted.options, exc, wanted.warnings)
        self.context = Context(library, weights, options)

    def _speculate(
        self,
        library: Library,
        weights: Weights,
        load: LoadOptions,
        options: ContextOptions,
    ) -> None:
        n_max = self.wanted.options.n_max
        copies = copies_only(self.wanted.options.types)
        if copies and not weights.rolls_back:
            # drafts are rare and long: the state is saved before each, not copied at each step
            options = replace(options, checkpoints=True)
        drafter, context = self._contexts(library, weights, load, options, n_max)
        if options.on_cpu:
            n_max = self._exact_length(library, weights.vocab.size, n_max)
        token = max(weights.vocab.bos, 0)
        if copies:
            costs = measure_rows(library, self.context, n_max, token)
            self.speculator = Speculator(drafter, CopyController(costs, n_max))
            return
        costs = measure(library, self.context, drafter, n_max, token)
        hardly = costs.plain < QUICK_STEP and costs.gain(n_max) < _WORTH_COPIES
        if hardly and self.wanted.options.adapt and not weights.rolls_back:
            self.close()
            options = replace(options, checkpoints=True)
            drafter, context = self._contexts(library, weights, load, options, n_max)
        misfit = Misfit(options.kv_type) if self.wanted.mode is not None else None
        self.speculator = Speculator(drafter, Controller(costs, n_max), context, misfit)

    def _contexts(
        self,
        library: Library,
        weights: Weights,
        load: LoadOptions,
        options: ContextOptions,
        n_max: int,
    ) -> tuple[Drafter, Context | None]:
        """Make the target's context for drafts of `n_max` tokens, the drafter and its context."""
        rollback = 0 if weights.rolls_back else n_max
        self.context = Context(
            library, weights, replace(options, outputs=1 + n_max, rollback=rollback)
        )
        drafters: list[Drafter] = [
            NGRAMS[kind]() for kind in self.wanted.options.types if kind in NGRAMS
        ]
        context: Context | None = None
        if self.wanted.mode is not None:
            draft_weights = weights
            if load.draft is not None and not self.wanted.heads:
                placement = Placement(
                    load.devices,
                    load.gpu_layers,
                    load.extra_buffers,
                    heads=self.wanted.mode == "shared",
                    mlock=load.mlock,
                    mmap=load.mmap is not False,
                )
                draft_weights = SHELF.borrow(library, load.draft.files, placement)
                self._draft_weights = draft_weights
            model, context = self._model_drafter(
                library, weights, draft_weights, options, self.wanted.mode
            )
            drafters.append(model)
        self._drafter = drafters[0] if len(drafters) == 1 else DrafterSequence(drafters)
        return self._drafter, context

    def _exact_length(self, library: Library, vocab_size: int, n_max: int) -> int:
        """The longest draft, up to `n_max`, that is verified with plain decoding's numbers.

        Where not even one is, as with float weights, drafts stay as long as asked and it is said.
        """
        exact = exact_rows(library, self.context, vocab_size, n_max + 1) - 1
        if exact == n_max:
            return n_max
        if exact >= CPU_DRAFT_TOKENS:  # beyond these nobody was promised more
            self.wanted = replace(self.wanted, options=replace(self.wanted.options, n_max=exact))
            return exact
        if exact:
            said = f"drafts are at most {exact} tokens long: of these weights, more rows at once"
            said += " would round differently from one"
        else:
            said = "these weights round differently when several tokens are checked at once: an"
            said += " answer may differ from plain decoding where two tokens are nearly equal"
        self.wanted = replace(
            self.wanted,
            options=replace(self.wanted.options, n_max=exact or n_max),
            warnings=(*self.wanted.warnings, said),
        )
        return exact or n_max

    def _model_drafter(
        self,
        library: Library,
        weights: Weights,
        draft: Weights,
        options: ContextOptions,
        mode: Mode,
    ) -> tuple[ModelDrafter, Context]:
        if mode == "simple":
            # a model of its own may have other heads, and its cache is small
            context = Context(library, draft, replace(options, kv_type="f16"))
        elif draft.hidden_size != weights.hidden_size:
            # llama.cpp would read past its memory: checked before the context exists
            raise SpeculativeError(
                f"the draft is made for hidden states of {draft.hidden_size} values, the target "
                f"has {weights.hidden_size}"
            )
        else:
            context = Context(library, draft, options, target=self.context)
        return ModelDrafter(library, draft, self.context, context, mode), context

    def close(self) -> None:
        """Free the contexts, the draft's before the target's, then the draft's weights."""
        self.speculator = None
        drafter, self._drafter = self._drafter, None
        if drafter is not None:
            drafter.close()
        context = getattr(self, "context", None)
        if context is not None:
            context.close()
        draft_weights, self._draft_weights = self._draft_weights, None
        if draft_weights is not None:
            SHELF.give_back(draft_weights)
