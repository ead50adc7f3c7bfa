"""What a model's best settings change, where nobody has said otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from geniex.best import Best
from geniex.config import Settings
from geniex.speculation_wish import SpeculationWish, read_wish
from geniex_catalogue.errors import GenieXError
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store


@dataclass(frozen=True, slots=True)
class Tuned:
    """Settings and wish with the best settings of a model in them; `words` are those in use.

    `lost` is a draft that belongs to them and is not here any more: they do without it.
    """

    settings: Settings
    wish: SpeculationWish
    words: str = ""
    lost: str = ""

    @property
    def note(self) -> str:
        """A line for the user; empty where there is nothing to say."""
        without = f"the draft `{self.lost}` is not here" if self.lost else ""
        parts = [part for part in (self.words, without) if part]
        return f"best settings of `geniex bench`: {', but '.join(parts)}" if parts else ""


def kept_name(model: ResolvedModel) -> str:
    """What the best settings of a model are kept under."""
    return model.name if model.ref is not None else str(model.path.resolve())


def has_draft(settings: Settings) -> Callable[[str], bool]:
    """Tells of a draft's name or path whether it is here."""

    def has(name: str) -> bool:
        try:
            return isinstance(resolve(name, Store(settings.data_dir), "draft"), ResolvedModel)
        except GenieXError:
            return False

    return has


def tuned(
    model: ResolvedModel,
    settings: Settings,
    wish: SpeculationWish,
    has_draft: Callable[[str], bool],
) -> Tuned:
    """Use the best settings of a model, as far as no flag, variable or request says otherwise.

    A wish that speculates, or says `none`, stays. `has_draft` tells whether a draft is here. Raises
    UsageError for words that cannot be.
    """
    best = next((one for one in settings.best if one.model == kept_name(model)), None)
    if best is None:
        return Tuned(settings, wish)
    # a unit that was asked for may have another best number of threads
    free = "compute" not in settings.said
    compute = best.compute if free else None
    threads = best.threads if free and "threads" not in settings.said else None
    drafts = None if wish.wanted or wish.off else best.spec_type
    lost = ""
    if drafts is not None and best.draft_model is not None and not has_draft(best.draft_model):
        drafts, lost = None, best.draft_model
    if drafts is not None:
        wish = read_wish(
            drafts,
            best.draft_model,
            draft_tokens=best.draft_tokens,
            draft_adapt=best.draft_adapt,
        )
    used = Best(best.model, compute=compute, threads=threads)
    if drafts is not None:
        used = replace(best, compute=compute, threads=threads)
    own = replace(
        settings,
        compute=settings.compute if compute is None else compute,
        threads=settings.threads if threads is None else threads,
    )
    return Tuned(own, wish, used.text(), lost)
