"""From what `geniex bench` was told to the cases to measure: found, planned, and checked."""

from collections.abc import Callable, Sequence

from geniex.bench.plan import PLAIN, Case, Fitted, Sizes, Variant
from geniex.cli import terminal
from geniex.cli.loading import DraftFinder, find_or_pull
from geniex.cli.output import Output, one_line
from geniex.config import Settings
from geniex.session import decide_speculation, plan_model
from geniex.tuned import kept_name
from geniex_catalogue.errors import UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.errors import NoRuntimeError


class Settler:
    """Settles cases; what cannot be measured is told by `warn`, never passed over."""

    def __init__(
        self, settings: Settings, output: Output, warn: Callable[[str], None], *, yes: bool
    ) -> None:
        self._settings = settings
        self._output = output
        self._warn = warn
        self._yes = yes

    def cases(self, names: Sequence[str], variants: Sequence[Variant], sizes: Sizes) -> list[Case]:
        """The cases of all models. Raises the catalogue's errors, NoRuntimeError, UsageError."""
        models: dict[str, ResolvedModel] = {}
        for name in names:
            model = find_or_pull(name, self._settings, self._output, yes=self._yes)
            if kept_name(model) in models:
                self._warn(one_line(f"`{name}` is named twice, and measured once"))
            models.setdefault(kept_name(model), model)
        made: list[Case] = []
        for model in models.values():
            if model.header is not None and model.header.role == "embedding":
                raise UsageError(f"`{model.name}` gives vectors: a bench measures answers in text")
            made += self._of_model(model, variants, sizes)
        return made

    def _of_model(
        self, model: ResolvedModel, variants: Sequence[Variant], sizes: Sizes
    ) -> list[Case]:
        """Its cases. A unit that cannot run it is left out where others are compared and can."""
        made: list[Case | None] = []
        refused: dict[str | None, NoRuntimeError] = {}
        for variant in variants:
            if variant.compute in refused:
                continue
            try:
                made.append(self._case(model, variant, sizes))
            except NoRuntimeError as exc:
                refused[variant.compute] = exc
        for unit, error in refused.items():
            if not made:
                raise error
            self._warn(one_line(f"`{model.name} {unit}` is left out: {error.message}"))
        return [case for case in made if case is not None]

    def _case(self, model: ResolvedModel, variant: Variant, sizes: Sizes) -> Case | None:
        needed = sizes.needed if model.format == "gguf" else None
        settings = variant.settings(self._settings, needed)
        with self._output.status("looking at the hardware..."):
            machine, plan = terminal.in_background(lambda: plan_model(model, settings))
        fitted = sizes.fit(plan.context_length, plan.slots, model.name)
        name = f"{model.name} {variant.label}"
        self._tell_beyond(model, variant, fitted)
        find = DraftFinder(settings, self._output, yes=self._yes, ask=False)
        speculation = decide_speculation(variant.drafting.wish, model, plan, settings, find)
        for text in speculation.warnings:
            self._warn(one_line(f"{name}: {text}"))
        if speculation.choice:
            self._output.note(one_line(f"{name}: {speculation.choice}"))
        if variant.drafting.label != PLAIN and not speculation.options.types:
            self._warn(f"`{name}` is left out: it would be plain decoding")
            return None
        return Case(model, variant, settings, machine, plan, speculation, fitted)

    def _tell_beyond(self, model: ResolvedModel, variant: Variant, fitted: Fitted) -> None:
        if fitted.beyond and variant.drafting.label == PLAIN:
            left = ", ".join(map(str, fitted.beyond))
            self._warn(
                f"`{model.name}` does not answer so many at once: `--parallel {left}` is left out"
            )
