"""Errors of running a model, below those of the catalogue.

GenieXError
├── NoRuntimeError               no runtime fits (with every refusal)
├── RuntimeNotInstalledError     the runtime's package is missing
├── LoadError, BundleError       (the catalogue's)
│   └── BundleTargetError        a bundle that was compiled for something else than is here
├── MemoryBudgetError            a model larger than all the memory there may be
├── SpeculativeError             speculation that was required and cannot be set up
├── ContextLengthError           a prompt longer than the context
└── GenerationError              decoding failed
    └── WorkerCrashedError       the process that computed it ended
        └── WorkerRestingError   it has ended so often that the next one waits a while
"""

from collections.abc import Sequence
from pathlib import Path

from geniex_catalogue.errors import BundleError, GenieXError
from geniex_catalogue.sizes import size_text


class NoRuntimeError(GenieXError):
    """Raised when no runtime and compute unit fit; `refusals` says why, one line each."""

    def __init__(self, model: str, refusals: Sequence[str], *, hint: str | None = None) -> None:
        reasons = "; ".join(refusals) if refusals else "no runtime is installed"
        super().__init__(f"nothing here can run `{model}`: {reasons}", hint=hint)
        self.model = model
        self.refusals = tuple(refusals)


class RuntimeNotInstalledError(GenieXError):
    """Raised when a runtime's package is missing or broken."""


class BundleTargetError(BundleError):
    """Raised for a whole bundle that cannot run here; `needs` and `here` say what differs."""

    def __init__(self, file: Path, needs: str, here: str, *, hint: str | None = None) -> None:
        super().__init__(
            file,
            f"needs {needs}; here is {here}",
            hint=hint or "`geniex hub list` shows the bundles for this machine",
        )
        self.needs = needs
        self.here = here


class MemoryBudgetError(GenieXError):
    """Raised when a model can never fit; `needed` and `budget` are bytes."""

    def __init__(self, model: str, needed: int, budget: int, *, hint: str | None = None) -> None:
        super().__init__(
            f"`{model}` needs {size_text(needed)} of memory ({needed} bytes); "
            f"models may take {size_text(budget)} ({budget} bytes)",
            hint=hint or "choose a smaller precision, or a shorter `nctx`",
        )
        self.model = model
        self.needed = needed
        self.budget = budget


class SpeculativeError(GenieXError):
    """Raised when speculation cannot be set up, where it was required."""


class ContextLengthError(GenieXError):
    """Raised when a prompt does not fit; both numbers are tokens.

    `at_least`: the prompt is so long that its tokens were not counted, only bounded. `fixed`: the
    context is as the model was compiled, and no option changes it.
    """

    def __init__(self, prompt_tokens: int, context_length: int, *, at_least: bool = False) -> None:
        count = f"at least {prompt_tokens}" if at_least else f"{prompt_tokens}"
        super().__init__(
            "context_length_exceeded: the prompt, with what was said before it, has "
            f"{count} tokens; the maximum context length is {context_length} tokens, as it is set "
            "here",
            hint="shorten the prompt, or raise the context with `--nctx`",
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length
        self.at_least = at_least
        self.fixed = False


class GenerationError(GenieXError):
    """Raised when decoding failed."""


class WorkerCrashedError(GenerationError):
    """Raised when a worker process ended; `how` follows "the worker", `words` are its last ones."""

    def __init__(self, model: str, how: str, words: str = "", *, hint: str | None = None) -> None:
        super().__init__(
            f"the worker of `{model}` {how}" + (f" ({words})" if words else ""),
            hint=hint or "send the request again: it gets a new worker",
        )
        self.model = model
        self.how = how
        self.words = words


class WorkerRestingError(WorkerCrashedError):
    """Raised for a model whose workers keep dying, until the next one is tried.

    `deaths` is how many have died in a row, `retry_after` seconds.
    """

    def __init__(self, model: str, how: str, words: str, deaths: int, retry_after: float) -> None:
        super().__init__(
            model,
            f"has died {deaths} times in a row and rests for {max(1, round(retry_after))} s; the "
            f"last one {how}",
            words,
            hint="try again in a while, use another file, or see `geniex doctor`",
        )
        self.deaths = deaths
        self.retry_after = retry_after
