"""How much memory contexts take, and how much models may take altogether.

An estimate: what llama.cpp really takes is known only once it has it. Weights count once for all
contexts that share them.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from geniex.server.finder import Identity, identity_of
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import compute, memory
from geniex_runtimes.contract import (
    Device,
    HardwareProfile,
)
from geniex_runtimes.planning import (
    Plan,
)

if TYPE_CHECKING:
    import psutil

MACHINE = "machine"  # the place of what is not on a card with memory of its own

# bytes of free memory that models leave alone: a sixteenth of all, within these bounds
_LEAST_RESERVE, _MOST_RESERVE = 256 << 20, 2 << 30

# files, where they are, and how many layers are there
WeightsKey: TypeAlias = tuple[Identity, tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a set of contexts at a place, and of the weights that it needs there."""

    place: str
    weights: Mapping[WeightsKey, int]
    contexts: int

    @property
    def shared(self) -> int:
        """Bytes of the weights."""
        return sum(self.weights.values())

    @property
    def total(self) -> int:
        """Bytes when nothing of it is there yet."""
        return self.shared + self.contexts


def footprint(
    model: ResolvedModel,
    plan: Plan,
    slots: int,
    draft: ResolvedModel | None = None,
    devices: Collection[Device] = (),
) -> Footprint:
    """What `slots` contexts of a model as planned take, with a draft beside each."""
    place = _place(plan, devices)
    if model.format == "qairt":
        # a bundle is in a process of its own, which shares nothing
        return Footprint(place, {}, plan.needed_memory)
    share = _share(model, plan) if place != MACHINE else 1.0
    weights: dict[WeightsKey, int] = {}
    contexts = 0
    for one in (model, draft) if draft is not None else (model,):
        need = memory.need(one, plan.context_length, plan.kv_type if one is model else None)
        key = (identity_of(one), plan.devices, plan.gpu_layers)
        weights[key] = round(need.weights * share)
        contexts += round(need.slot * slots * share) + need.work
    return Footprint(place, weights, contexts)


def fitted(
    model: ResolvedModel,
    plan: Plan,
    slots: int,
    room: int | None,
    here: Collection[WeightsKey],
    draft: ResolvedModel | None = None,
    devices: Collection[Device] = (),
) -> Plan:
    """A plan whose context was ours to choose, shortened until `slots` of them fit into `room`.

    `here` are weights that are loaded already.
    """
    length = plan.context_length
    while room is not None and length // 2 >= memory.LEAST_CONTEXT:
        wanted = footprint(model, replace(plan, context_length=length), slots, draft, devices)
        if added(wanted, here) <= room:
            break
        length //= 2
    if length == plan.context_length:
        return plan
    reason = f"contexts of {length} tokens are what fits the memory {slots} times"
    return replace(plan, context_length=length, reasons=(*plan.reasons, reason))


def added(wanted: Footprint, here: Collection[WeightsKey]) -> int:
    """Bytes that a set of contexts takes where some weights are loaded already."""
    return wanted.contexts + sum(b for key, b in wanted.weights.items() if key not in here)


def used(footprints: Iterable[Footprint], place: str) -> int:
    """Bytes of all of them at a place."""
    mine = [one for one in footprints if one.place == place]
    weights = {key: size for one in mine for key, size in one.weights.items()}
    return sum(weights.values()) + sum(one.contexts for one in mine)


def _place(plan: Plan, devices: Collection[Device]) -> str:
    """Where a plan puts the model: the machine's memory, or the cards it names."""
    if plan.compute != "gpu":
        return MACHINE
    named = [device for device in devices if device.name in plan.devices]
    if not named or any(compute.shares_memory(device) for device in named):
        return MACHINE
    return ",".join(plan.devices)


def _share(model: ResolvedModel, plan: Plan) -> float:
    """How much of a model is on the card; the output counts as one layer more."""
    blocks = model.header.block_count if model.header is not None else 0
    if plan.gpu_layers < 0 or not blocks:
        return 1.0
    return min(1.0, plan.gpu_layers / (blocks + 1))


@dataclass(slots=True)
class Budget:
    """How many bytes models may take at a place.

    `limit` is for every place; without one it is what the machine has free, less a reserve: looked
    up anew each time, since others use the machine as well.
    """

    limit: int | None = None
    _free_at_first: int | None = field(default=None, init=False)
    _own_at_first: int = field(default=0, init=False)

    def bytes(self, place: str, machine: HardwareProfile, held: int) -> int | None:
        """For all models together, of which `held` is in use already; None where it is unknown."""
        if self.limit is not None:
            return self.limit
        if place != MACHINE:
            cards = [d for d in machine.devices if d.name in place.split(",")]
            room = compute.total(cards, compute.room)
            return room + held if room else None
        if not machine.memory_total:
            return None
        free, own = machine.memory_free, _own_bytes()
        if self._free_at_first is None:
            self._free_at_first, self._own_at_first = free, own
        # weights that are mapped from their file may count as free or as used, by system and
        # container: the first sum holds where they count as free, the second one where as used
        total = max(free + own - self._own_at_first, min(self._free_at_first, free + held))
        reserve = min(max(machine.memory_total // 16, _LEAST_RESERVE), _MOST_RESERVE)
        return max(0, total - reserve)


def _own_bytes() -> int:
    """Bytes of this process and its workers that are no mapped files."""
    import psutil

    me = psutil.Process()
    return sum(_bytes_of(process) for process in (me, *me.children(recursive=True)))


def _bytes_of(process: "psutil.Process") -> int:
    import psutil

    try:
        found = process.memory_info()
    except psutil.Error:
        return 0  # it has just ended
    if sys.platform == "win32":
        return int(found.private)
    return int(found.rss - getattr(found, "shared", 0))
