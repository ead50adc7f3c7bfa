"""What `--compute` means on this machine: a unit or a device list, and the devices behind it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from geniex_catalogue.errors import UsageError
from geniex_runtimes.contract import Device
from geniex_runtimes.options import ComputeUnit

UNITS: tuple[ComputeUnit, ...] = get_args(ComputeUnit)
# best first
PREFERENCE: tuple[ComputeUnit, ...] = ("npu", "gpu", "cpu")
AUTO = "auto"

# bytes: a session of the Hexagon NPU sees no more than this at a time
HTP_SESSION = 3_500_000_000


@dataclass(frozen=True, slots=True)
class Choice:
    """Units to try in order; `devices` are those named one by one.

    `free` is True when geniex may choose: then a unit that does not fit gives way to the next.
    """

    units: tuple[ComputeUnit, ...]
    devices: tuple[Device, ...] = ()
    free: bool = False


def choice(text: str | None, devices: Sequence[Device]) -> Choice:
    """Read a wish: a unit in any case, `auto` or nothing, or exact device names with commas.

    Raises UsageError for anything else, listing the units and the devices that exist.
    """
    wish = (text or "").strip()
    if wish.casefold() in ("", AUTO):
        return Choice(PREFERENCE, free=True)
    for unit in UNITS:
        if wish.casefold() == unit:
            return Choice((unit,))
    by_name = {device.name: device for device in devices if device.unit != "cpu"}
    names = list(dict.fromkeys(part.strip() for part in wish.split(",")))
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(
            f"unknown compute `{unknown[0]}`; units: {', '.join((AUTO, *UNITS))}; "
            f"devices here: {', '.join(by_name) or 'none besides the CPU'}",
            hint="`geniex devices` shows what was found",
        )
    named = tuple(by_name[name] for name in names)
    if len({device.runtime for device in named}) > 1:
        raise UsageError(f"the devices `{wish}` belong to different runtimes")
    kinds = {device.unit for device in named}
    return Choice((kinds.pop() if len(kinds) == 1 else "hybrid",), named)


def behind(unit: ComputeUnit, devices: Sequence[Device]) -> tuple[Device, ...]:
    """The devices of a unit; `hybrid` is everything besides the CPU."""
    if unit == "hybrid":
        return tuple(device for device in devices if device.unit != "cpu")
    return tuple(device for device in devices if device.unit == unit)


def shares_memory(device: Device) -> bool:
    """Whether a device works in the machine's own memory: both units of a Snapdragon do."""
    return device.name.startswith(("HTP", "GPUOpenCL"))


def room(device: Device) -> int:
    """Bytes a device can hold just now; 0 where it does not say."""
    if device.name.startswith("HTP"):
        return HTP_SESSION
    return device.memory_free or device.memory_total


def capacity(device: Device) -> int:
    """Bytes a device can hold when nothing else is on it; 0 where it does not say."""
    return device.memory_total


def enough(devices: Sequence[Device], needed: int) -> tuple[Device, ...]:
    """As few devices as hold `needed` bytes, all of the first one's kind.

    One card may be listed twice, by two backends: kinds are never mixed. All of the kind when even
    they are too small; the first alone where it does not say how much it holds.
    """
    kind = _kind(devices[0])
    taken: list[Device] = []
    for device in devices:
        if _kind(device) != kind:
            continue
        taken.append(device)
        if room(taken[0]) == 0 or total(taken, room) >= needed:
            break
    return tuple(taken)


def total(devices: Sequence[Device], measure: Callable[[Device], int]) -> int:
    """The sum of `room` or `capacity`; 0 when one of the devices does not say."""
    sizes = [measure(device) for device in devices]
    return sum(sizes) if all(sizes) else 0


def _kind(device: Device) -> str:
    """`CUDA1` -> CUDA, `HTP0:1` -> HTP, `GPUOpenCL` -> GPUOpenCL."""
    letters = re.match(r"[^\d:]+", device.name)
    return letters.group() if letters else device.name
