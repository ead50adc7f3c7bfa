"""The plan for a compiled bundle: it runs on the NPU it was made for, as it was made, or not.

Pure, as the dispatcher is; `compiled_facts` reads what the plan has to know of the bundle.
"""

from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.sizes import size_text
from geniex_runtimes import compute, memory
from geniex_runtimes.contract import Device, HardwareProfile
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.options import NPU, SIMULATOR
from geniex_runtimes.planning import Compiled, Plan, Wish

# bytes that a worker process takes beside the bundle's files, measured on the simulator
WORKER = 200 << 20


def compiled_facts(model: ResolvedModel) -> Compiled | None:
    """What is settled in a bundle's files; None for a model that is no bundle.

    Raises BundleError for a bundle that is incomplete or damaged.
    """
    if model.format != "qairt":
        return None
    # a GGUF has no use for it
    from geniex_runtimes.qairt.bundle import read_bundle

    bundle = read_bundle(model.path)
    return Compiled(bundle.context_length, bundle.size + WORKER, bundle.htp_arch)


def check_bundle(model: ResolvedModel) -> None:
    """Look into a bundle's binaries; a load does the same first. Nothing for other models.

    Raises BundleError for a damaged one, BundleTargetError for one that needs something else than
    is here, RuntimeNotInstalledError.
    """
    if model.format != "qairt":
        return
    from geniex_runtimes.qairt.bundle import read_bundle
    from geniex_runtimes.qairt.device import this_device
    from geniex_runtimes.qairt.verification import verify

    verify(read_bundle(model.path), this_device())


def plan_bundle(
    model: ResolvedModel, hardware: HardwareProfile, runtime: str, wish: Wish, compiled: Compiled
) -> Plan:
    """The plan for a bundle on `runtime`. Raises NoRuntimeError, and UsageError for a compute unit
    that does not exist.
    """
    # a unit that does not exist is a mistake here as well
    choice = compute.choice(wish.compute, hardware.devices)
    device = _device(model, hardware, runtime, compiled)
    _check_required(model, device, wish)
    total, free = hardware.memory_total, hardware.memory_free
    if 0 < total < compiled.memory:
        raise NoRuntimeError(
            model.name,
            [f"it needs {size_text(compiled.memory)}, the memory is {size_text(total)}"],
        )
    on_npu = choice.free or choice.units == ("npu",)
    foreign = any(one.runtime != runtime for one in choice.devices)
    notes = _ignored(wish, compiled, runtime, elsewhere=not on_npu or foreign)
    if compiled.memory > free > 0:
        notes.append(memory.tight(compiled.memory, free))
    return Plan(
        runtime=runtime,
        compute="npu",
        devices=(device.name,),
        gpu_layers=-1,
        context_length=compiled.context_length,
        needed_memory=compiled.memory,
        available_memory=free,
        reasons=(
            f"{runtime} runs {model.format} models",
            f"npu ({device.name}) is what a bundle runs on",
            f"a context of {compiled.context_length} tokens is fixed in the bundle",
        ),
        notes=tuple(notes),
        slots=1,
    )


def _device(
    model: ResolvedModel, hardware: HardwareProfile, runtime: str, compiled: Compiled
) -> Device:
    for device in hardware.devices:
        if device.runtime == runtime and device.unit == "npu":
            return device
    arch = f" (HTP v{compiled.htp_arch})" if compiled.htp_arch else ""
    here = f"{hardware.system} on {hardware.machine}, {hardware.chipset or 'no known Snapdragon'}"
    raise NoRuntimeError(
        model.name,
        [
            f"npu: a bundle needs the Hexagon NPU of a Snapdragon{arch}, or Qualcomm's simulator "
            f"of it on x86-64; here is {here}, and {runtime} reports neither"
        ],
        hint="`geniex devices` shows what was found; GGUF models run on every machine",
    )


def _check_required(model: ResolvedModel, device: Device, wish: Wish) -> None:
    refusal = None
    if wish.require in ("cpu", "gpu"):
        refusal = f"{wish.require}: a bundle runs on the NPU alone"
    elif wish.require == "npu" and device.name == SIMULATOR:
        refusal = "npu: the HTP simulator is not an NPU"
    if refusal is not None:
        raise NoRuntimeError(
            model.name,
            [refusal],
            hint=f"leave `--require {wish.require}` out to run it all the same",
        )


def _ignored(wish: Wish, compiled: Compiled, runtime: str, *, elsewhere: bool) -> list[str]:
    """What was asked for and cannot be: a bundle is as it was compiled."""
    notes: list[str] = []
    if elsewhere:
        notes.append(
            f"{runtime} plugin only supports NPU inference; ignoring device='{wish.compute}' and "
            f"running on {NPU}"
        )
    fixed = compiled.context_length
    if wish.context_length not in (None, fixed):
        notes.append(
            f"`--nctx {wish.context_length}` is ignored: the context of this bundle is fixed at "
            f"{fixed} tokens"
        )
    if wish.gpu_layers != -1:
        notes.append(f"`--ngl {wish.gpu_layers}` is ignored: all layers of a bundle are on the NPU")
    if wish.kv_type is not None:
        notes.append(f"`--kv-type {wish.kv_type}` is ignored: a bundle's KV cache was compiled")
    if wish.flash_attention != "auto":
        notes.append(f"`--flash-attn {wish.flash_attention}` is ignored: a bundle was compiled")
    return notes
