"""From speculative options to a context and a speculator, or to plain decoding and the reason."""

import logging
from dataclasses import dataclass, replace

from geniex_catalogue.errors import GenieXError, SpeculativeError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import LoadOptions, SpeculativeOptions
from geniex_runtimes.llama_cpp.context import Context, ContextOptions
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.speculative.drafter import Drafter
from geniex_runtimes.llama_cpp.speculative.mtp import Mode, MtpDrafter
from geniex_runtimes.llama_cpp.speculative.speculator import Speculator
from geniex_runtimes.llama_cpp.weights import Weights

log = logging.getLogger("geniex.llama_cpp")

FALLBACK = "speculative decoding setup failed; falling back to plain decoding"
# more rows in one decode round differently from one row on a CPU (docs/threads.md)
CPU_DRAFT_TOKENS = 6


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
    if options.compute == "cpu" and wanted.n_max > CPU_DRAFT_TOKENS:
        warnings.append(
            f"at most {CPU_DRAFT_TOKENS} draft tokens are used on a CPU, where more rows at once "
            "would round differently"
        )
        wanted = replace(wanted, n_max=CPU_DRAFT_TOKENS)
    try:
        mode = _mode(model, options.draft) if "draft-mtp" in wanted.types else None
    except SpeculativeError as exc:
        return _fallen(wanted, exc, tuple(warnings))
    return Wanted(wanted, mode, tuple(warnings))


def _mode(model: ResolvedModel, draft: ResolvedModel | None) -> Mode:
    from geniex_runtimes.llama_cpp.speculative import pair

    if model.header is None:
        raise SpeculativeError(f"`{model.name}` has no GGUF header to check a draft against")
    return pair.check(
        model.header,
        model.path,
        draft.header if draft is not None else None,
        draft.path if draft is not None else None,
    )


def _fallen(
    wanted: SpeculativeOptions, reason: GenieXError, warnings: tuple[str, ...] = ()
) -> Wanted:
    if wanted.require:
        raise reason
    log.warning("%s: %s", FALLBACK, reason.message)
    return Wanted(SpeculativeOptions(), None, (*warnings, f"{FALLBACK}: {reason.message}"))


class Speculation:
    """A target's context, with a speculator where one was wanted and could be set up."""

    def __init__(
        self,
        library: Library,
        weights: Weights,
        wanted: Wanted,
        draft: ResolvedModel | None,
        options: ContextOptions,
        *,
        extra_buffers: bool,
    ) -> None:
        """Make the contexts. Raises LoadError where even plain decoding cannot be set up."""
        self.speculator: Speculator | None = None
        self._draft_weights: Weights | None = None
        self.wanted = wanted
        if wanted.options.types:
            try:
                self._speculate(library, weights, draft, options, extra_buffers)
                return
            except GenieXError as exc:
                self.close()
                self.wanted = _fallen(wanted.options, exc, wanted.warnings)
        self.context = Context(library, weights, options)

    def _speculate(
        self,
        library: Library,
        weights: Weights,
        draft: ResolvedModel | None,
        options: ContextOptions,
        extra_buffers: bool,
    ) -> None:
        n_max = self.wanted.options.n_max
        rollback = 0 if weights.rolls_back else n_max
        self.context = Context(
            library, weights, replace(options, outputs=1 + n_max, rollback=rollback)
        )
        if self.context.rollback < rollback:
            raise SpeculativeError("the recurrent state of this architecture cannot be cut back")
        draft_weights = weights
        if self.wanted.mode == "shared" and draft is not None:
            draft_weights = self._draft_weights = Weights(
                library, draft.files, extra_buffers=extra_buffers, heads=True
            )
        draft_context: Context | None = None
        drafters: list[Drafter] = []
        if self.wanted.mode is not None:
            if draft_weights.hidden_size != weights.hidden_size:
                raise SpeculativeError(
                    f"the draft is made for hidden states of {draft_weights.hidden_size} values, "
                    f"the target has {weights.hidden_size}"
                )
            draft_context = Context(library, draft_weights, options, target=self.context)
            mtp = MtpDrafter(library, draft_weights, self.context, draft_context, self.wanted.mode)
            n_max = min(n_max, mtp.longest or n_max)
            drafters.append(mtp)
        self.speculator = Speculator(drafters[0], n_max, draft_context)

    def close(self) -> None:
        """Free the contexts, the draft's before the target's, then the draft's weights."""
        speculator, self.speculator = self.speculator, None
        if speculator is not None:
            speculator.close()
        context = getattr(self, "context", None)
        if context is not None:
            context.close()
        draft_weights, self._draft_weights = self._draft_weights, None
        if draft_weights is not None:
            draft_weights.close()
