"""What is to be measured: shapes of requests, and the cases of models that they are run on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from geniex.best import Best
from geniex.config import Settings
from geniex.speculation import Speculation
from geniex.speculation_wish import SpeculationWish, read_wish
from geniex_catalogue.errors import UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import HardwareProfile
from geniex_runtimes.planning import Plan

PROMPT_TOKENS = (128, 512)
TOKENS = 64
PLAIN = "plain"
_STEP = 256  # tokens; contexts are made in steps of this


@dataclass(frozen=True, slots=True)
class Shape:
    """A request: tokens of its prompt beyond the `depth` that is there already; answers at once."""

    prompt_tokens: int
    depth: int = 0
    parallel: int = 1

    @property
    def length(self) -> int:
        """Tokens before the first of the answer."""
        return self.depth + self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Sizes:
    """What shapes are made of; None is what fits the model. `tokens` is those of each answer."""

    prompt_tokens: tuple[int, ...] | None = None
    tokens: int | None = None
    depths: tuple[int, ...] = (0,)
    parallel: tuple[int, ...] = (1,)

    @property
    def needed(self) -> int:
        """Tokens of context that the longest shape takes."""
        prompts = self.prompt_tokens or PROMPT_TOKENS
        need = max(prompts) + max(self.depths) + (self.tokens or TOKENS)
        return -(-need // _STEP) * _STEP

    def fit(self, context: int, slots: int | None, name: str) -> "Fitted":
        """The shapes for a model of this context and of so many slots (None: any number).

        Raises UsageError for sizes that were asked for and are too long.
        """
        tokens = self.tokens or max(1, min(TOKENS, context // 4))
        room = context - tokens - max(self.depths)
        prompts = self.prompt_tokens or tuple(n for n in PROMPT_TOKENS if n <= room)
        if not prompts and room > 1:
            prompts = (room // 2,)
        if not prompts or max(prompts) > room:
            asked = max(prompts, default=1) + max(self.depths) + tokens
            raise UsageError(
                f"`{name}` has a context of {context} tokens, and {asked} are to be measured",
                hint="give shorter `--prompt-tokens`, `--depth` or `--tokens`",
            )
        beyond = tuple(n for n in self.parallel if slots is not None and n > slots)
        shapes = [
            Shape(prompt, depth, parallel)
            for parallel, depth, prompt in product(self.parallel, self.depths, prompts)
            if parallel not in beyond
        ]
        return Fitted(tuple(shapes), tokens, beyond)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The shapes of a model, the tokens of each answer, and the parallels that it cannot do."""

    shapes: tuple[Shape, ...]
    tokens: int
    beyond: tuple[int, ...] = ()

    @property
    def most(self) -> int:
        """Answers at once, at most."""
        return max((shape.parallel for shape in self.shapes), default=1)


@dataclass(frozen=True, slots=True)
class Drafting:
    """A way to speculate, in the words of `geniex infer`; no `spec_type` is plain decoding."""

    label: str = PLAIN
    spec_type: str | None = None
    draft_model: str | None = None
    draft_tokens: int | None = None
    adapt: bool = True

    @property
    def wish(self) -> SpeculationWish:
        """As the core takes it."""
        return read_wish(
            self.spec_type,
            self.draft_model,
            draft_tokens=self.draft_tokens,
            draft_adapt=self.adapt,
        )


def draftings(
    types: Sequence[str], draft_model: str | None, draft_tokens: Sequence[int]
) -> tuple[Drafting, ...]:
    """Plain decoding, then each type with each length of draft as it is, and adaptively.

    Raises UsageError for a type that is none and for words that would do nothing.
    """
    read_wish(types[0] if types else None, draft_model if not types else None)
    if draft_tokens and not types:
        read_wish(None, draft_tokens=draft_tokens[0])
    known = dict.fromkeys(name.strip().lower() for name in types)
    wanted = [name for name in known if name != "none"]
    takers = [name for name in wanted if "draft-" in name or name == "auto"]
    if draft_model is not None and not takers:
        read_wish(wanted[0] if wanted else None, draft_model)
    made = [Drafting()]
    for name in wanted:
        draft = draft_model if name in takers else None
        for count in dict.fromkeys(draft_tokens):
            made.append(Drafting(f"{name} {count}", name, draft, count, adapt=False))
        most = max(draft_tokens, default=None)
        made.append(Drafting(f"{name} adaptive", name, draft, most))
    for one in made:
        _ = one.wish  # what cannot be is told before a model is loaded
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a model: its label, and what of the settings it sets (None: nothing)."""

    label: str
    drafting: Drafting
    compute: str | None = None
    threads: int | None = None

    def settings(self, settings: Settings, context: int | None) -> Settings:
        """The settings with those of this variant, and a context that is long enough.

        None leaves the context as it is: that of a bundle is fixed.
        """
        return replace(
            settings,
            compute=self.compute or settings.compute,
            threads=self.threads or settings.threads,
            nctx=settings.nctx or context,
        )

    def best(self, model: str, *, draft: str | None = None, compared: bool) -> Best:
        """As the settings file keeps it. `compared`: speculation was among what was measured.

        `draft` is what its draft is called wherever one is: a name, or an absolute path.
        """
        one = self.drafting
        return Best(
            model,
            compute=self.compute,
            threads=self.threads,
            spec_type=one.spec_type or ("none" if compared else None),
            draft_model=draft if one.draft_model is not None else None,
            draft_tokens=one.draft_tokens,
            draft_adapt=one.adapt,
        )


def variants(
    drafting: Sequence[Drafting], computes: Sequence[str], threads: Sequence[int]
) -> tuple[Variant, ...]:
    """Every combination; labels name what differs."""
    made = []
    units: Iterable[str | None] = dict.fromkeys(computes) or (None,)
    counts: Iterable[int | None] = dict.fromkeys(threads) or (None,)
    for unit, count, how in product(units, counts, drafting):
        words = [unit] if unit is not None and len(computes) > 1 else []
        words += (
            [f"{count} thread{'s' * (count > 1)}"] if count is not None and len(threads) > 1 else []
        )
        words += [how.label] if how.spec_type is not None or not words else []
        made.append(Variant(", ".join(words), how, unit, count))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Case:
    """A model to load in one way, and what to run on it; all of it is settled."""

    model: ResolvedModel
    variant: Variant
    settings: Settings
    machine: HardwareProfile
    plan: Plan
    speculation: Speculation
    fitted: Fitted

    @property
    def name(self) -> str:
        """What it is called while it is measured."""
        return f"{self.model.name} {self.variant.label}"


def groups(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases that are measured in turns with each other, as their memory allows.

    All of them, else those of a model, else each alone; bundles always alone.
    """
    gguf = [case for case in cases if case.model.format == "gguf"]
    alone = [[case] for case in cases if case.model.format != "gguf"]
    if not gguf or _fits(gguf):
        return ([gguf] if gguf else []) + alone
    made: list[list[Case]] = []
    for name in dict.fromkeys(case.model.name for case in gguf):
        mine = [case for case in gguf if case.model.name == name]
        made += [mine] if _fits(mine) else [[case] for case in mine]
    return made + alone


def _fits(cases: Sequence[Case]) -> bool:
    needed = sum(case.plan.needed_memory for case in cases)
    # what is unknown is no reason against it
    return len(cases) == 1 or needed <= min(
        (c.plan.available_memory for c in cases if c.plan.available_memory), default=needed
    )
