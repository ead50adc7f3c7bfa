"""What a newcomer may take if all idle models go."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from geniex.server.footprint import MACHINE, Budget, Footprint, WeightsKey, used
from geniex_runtimes.contract import Device, HardwareProfile


@dataclass(frozen=True, slots=True)
class Room:
    """The machine as it is, the budget, and what is in memory: `staying`, or `idle` and given up
    when it must be.
    """

    machine: HardwareProfile
    budget: Budget
    staying: Sequence[Footprint]
    idle: Sequence[Footprint]

    def at(self, place: str) -> int | None:
        """Bytes that are left at a place beside what stays; None where that is unknown."""
        held = used([*self.staying, *self.idle], place)
        limit = self.budget.bytes(place, self.machine, held)
        return None if limit is None else max(0, limit - used(self.staying, place))

    @property
    def weights(self) -> frozenset[WeightsKey]:
        """Weights that stay, and cost a newcomer nothing."""
        return frozenset(key for one in self.staying for key in one.weights)

    def cleared(self) -> HardwareProfile:
        """The machine as it is to be planned for: as if what is idle were gone already."""
        free = self.at(MACHINE)
        return replace(
            self.machine,
            memory_free=self.machine.memory_free if free is None else free,
            devices=tuple(self._cleared(device) for device in self.machine.devices),
        )

    def _cleared(self, device: Device) -> Device:
        places = {one.place for one in self.idle if device.name in one.place.split(",")}
        given_up = sum(used(self.idle, place) // (place.count(",") + 1) for place in places)
        return replace(device, memory_free=device.memory_free + given_up) if given_up else device
