"""Which idle models go when memory is short, and what a request is told when none can."""

from collections.abc import Iterable, Sequence

from geniex.server.contextset import ContextSet
from geniex.server.finder import Identity
from geniex.server.footprint import used
from geniex.server.planning import Case
from geniex_catalogue.errors import ServerBusyError
from geniex_catalogue.sizes import size_text
from geniex_runtimes.errors import MemoryBudgetError

# idle sets of contexts that one model keeps: options beyond these seldom come back
KEPT_IDLE = 2


def may_go(one: ContextSet, sets: Iterable[ContextSet], beside: Identity | None = None) -> bool:
    """Whether a set may be given up: idle, and not the last one of a pinned model.

    `beside` is a model that is about to have another set.
    """
    if not one.idle:
        return False
    same = one.key.model
    return (
        not one.pinned
        or same == beside
        or any(other is not one and other.joinable and other.key.model == same for other in sets)
    )


def stays(one: ContextSet, sets: Iterable[ContextSet]) -> bool:
    """Whether an idle set goes at no time: the last one of a pinned model."""
    return one.idle and not one.retiring and not may_go(one, sets)


def choose(case: Case, sets: Sequence[ContextSet], budget: int | None) -> list[ContextSet]:
    """The idle sets to give up so that the case fits into `budget` bytes, or as far as that goes.

    Those of the same model go first, then the least recently used. Some go in any case where a
    model has many.
    """
    place, model = case.footprint.place, case.key.model
    idle = sorted(
        (one for one in sets if may_go(one, sets, model)),
        key=lambda one: (one.key.model != model, one.idle_since),
    )
    own = [one for one in idle if one.key.model == model]
    chosen = own[: max(0, len(own) - KEPT_IDLE + 1)]
    for one in idle:
        if budget is None or needed(case, sets, chosen) <= budget:
            break
        if one.footprint.place == place and one not in chosen:
            chosen.append(one)
    return chosen


def needed(case: Case, sets: Iterable[ContextSet], without: Sequence[ContextSet]) -> int:
    """Bytes at the case's place with it, and `without` some of the sets."""
    staying = [one.footprint for one in sets if one not in without]
    return used([*staying, case.footprint], case.footprint.place)


def refuse(
    case: Case, staying: Sequence[ContextSet], budget: int, *, limited: bool, patience: float
) -> None:
    """Raise for a case that does not fit beside the sets that stay.

    `limited`: the budget was set, and is no estimate of what the machine has free. Else a model is
    let in alone: the plan says that it may be slow. Raises MemoryBudgetError where it can never
    fit, ServerBusyError where requests hold the memory.
    """
    place, name = case.footprint.place, case.reading.resolved.name
    beside = [one for one in staying if one.footprint.place == place]
    if not beside and not limited:
        return
    pinned = [one.footprint for one in beside if one.pinned]
    if (limited or pinned) and used([*pinned, case.footprint], place) > budget:
        held = size_text(used(pinned, place))
        raise MemoryBudgetError(
            name,
            case.footprint.total,
            budget,
            hint=f"pinned models hold {held} of it" if pinned else None,
        )
    busy = sorted({f"`{one.name}`" for one in beside})
    raise ServerBusyError(
        f"`{name}` needs about {size_text(case.footprint.total)}; models may take "
        f"{size_text(budget)}, and {', '.join(busy)} {'is' if len(busy) == 1 else 'are'} in use",
        retry_after=patience,
    )
