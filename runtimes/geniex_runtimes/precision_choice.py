"""The precision that suits a machine best, where the user names none. Pure: nothing is probed."""

from collections.abc import Sequence

from geniex_catalogue.precision import sort_key
from geniex_catalogue.sizes import size_text
from geniex_runtimes.contract import Device, HardwareProfile
from geniex_runtimes.dispatcher import CPU_IS_FASTER

# what runs the files that precisions are of; bundles are chosen by their chipset
_RUNTIME = "llama_cpp"
# what the Hexagon backend of llama.cpp keeps in a layout of its own, the fastest first
_ON_HTP = ("Q4_0", "Q8_0", "MXFP4", "IQ4_NL")


def best_precision(
    sizes: Sequence[tuple[str, int | None]], machine: HardwareProfile, compute: str | None
) -> tuple[str, str]:
    """The label to take, and why; `sizes` are labels with bytes of their files, where known.

    On the NPU what it computes itself goes first, elsewhere the order of `precision.sort_key`.
    What is larger than all memory is passed over as long as something is not.
    """
    fitting = [label for label, size in sizes if not _too_large(size, machine)]
    labels = sorted(fitting or [label for label, _ in sizes], key=sort_key)
    npu = _htp(machine, compute)
    if npu is not None:
        best = min(labels, key=lambda label: (_htp_rank(label), labels.index(label)))
        why = f"the best for {npu.name}"
    else:
        best = labels[0]
        why = f"the first choice on {_unit(machine, compute)}"
    if fitting and len(fitting) < len(sizes):
        why += f", and it fits in {size_text(machine.memory_total)} of memory"
    return best, why


def _htp_rank(label: str) -> int:
    return _ON_HTP.index(label) if label in _ON_HTP else len(_ON_HTP)


def _htp(machine: HardwareProfile, compute: str | None) -> Device | None:
    """The NPU that GGUF models would run on."""
    if compute not in (None, "npu", "hybrid") and not (compute or "").upper().startswith("HTP"):
        return None
    if compute is None and (machine.chipset or "").lower() in CPU_IS_FASTER:
        return None
    found = (device for device in machine.devices if device.name.startswith("HTP"))
    return next((device for device in found if device.runtime == _RUNTIME), None)


def _unit(machine: HardwareProfile, compute: str | None) -> str:
    has_gpu = any(d.unit == "gpu" and d.runtime == _RUNTIME for d in machine.devices)
    if compute == "gpu" or (compute in (None, "hybrid") and has_gpu):
        return "the GPU"
    return "the CPU" if compute in (None, "cpu", "hybrid") else f"`{compute}`"


def _too_large(size: int | None, machine: HardwareProfile) -> bool:
    return size is not None and 0 < machine.memory_total < size
