"""Which runtime and compute unit run a model here. Pure: the same facts give the same plan.

The order of preference is npu, gpu, cpu. Left to choose, geniex passes over a unit
  - that has no device, or too little memory for the model;
  - the npu, for a precision its kernels do not know (Q4_0 is what it runs best);
  - the npu and gpu of a QCS6490 (the RB3 Gen 2), whose CPU is faster.
A unit that was asked for is used or refused, never replaced. A compiled bundle has a plan of its
own (`bundle_plan`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from geniex_catalogue.errors import UsageError
from geniex_catalogue.gguf import GGUFHeader
from geniex_catalogue.precision import label_of
from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.sizes import size_text
from geniex_runtimes import compute, kv_cache, memory
from geniex_runtimes.bundle_plan import plan_bundle
from geniex_runtimes.contract import Availability, Device, HardwareProfile
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.options import ComputeUnit, KvType
from geniex_runtimes.planning import (
    Compiled,
    Plan,
    Wish,
)

# what the Hexagon backend of llama.cpp multiplies itself; all else goes back to the CPU
HTP_PRECISIONS = ("Q4_0", "Q4_1", "Q8_0", "IQ4_NL", "MXFP4", "Q4_K", "Q5_K", "Q6_K", "F16", "F32")

CPU_IS_FASTER = frozenset({"qualcomm-qcs6490", "dragonwing rb3 gen 2 vision kit"})

_NOT_FOR_CHAT = {
    "draft": "it is a draft for speculative decoding: give it to its target as `--draft-model`",
    "projector": "it is a projector, the image or audio part of another model",
    "embedding": "it is an embedding model, which gives vectors and no text",
    "adapter": "it is an adapter, which changes another model and is none itself",
    "imatrix": "it holds statistics for quantising a model, no weights",
    "vocabulary": "it holds a vocabulary and no weights",
    "unknown": "its metadata names no architecture",
}
_NO_VECTORS = "it is a compiled bundle of a text model, which gives no vectors"


@dataclass(frozen=True, slots=True)
class _Case:
    """What a plan is made from."""

    model: ResolvedModel
    hardware: HardwareProfile
    wish: Wish
    choice: compute.Choice

    @property
    def kv_type(self) -> KvType:
        """What the KV cache is kept in."""
        return self.wish.kv_type or "f16"


class _Refused(Exception):
    """A candidate that does not do; `device` tells whether there was one, `hint` what would do."""

    def __init__(self, reason: str, *, device: bool = True, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.device = device
        self.hint = hint


def plan(
    model: ResolvedModel,
    hardware: HardwareProfile,
    availability: Mapping[str, Availability],
    wish: Wish,
    compiled: Compiled | None = None,
) -> Plan:
    """Choose the runtime, compute unit, devices and context length for a model.

    `compiled` is what is settled in a bundle. Raises NoRuntimeError, with every reason, when
    nothing fits or a choice cannot be met, and UsageError for a runtime or compute unit that does
    not exist, a context of no tokens, or a KV cache that the model cannot have.
    """
    if wish.context_length is not None and wish.context_length < 1:
        raise UsageError(f"a context of {wish.context_length} tokens is not possible")
    if model.header is not None:
        (require_embedding if wish.embedding else require_chat)(model.name, model.header)
    elif wish.embedding and model.format == "qairt":
        raise NoRuntimeError(model.name, [_NO_VECTORS])
    runtimes, refusals = _runtimes(model, availability, wish)
    if not runtimes:
        raise NoRuntimeError(model.name, refusals, hint=_what_to_do(model, availability, wish))
    if compiled is not None:
        return plan_bundle(model, hardware, runtimes[0], wish, compiled)
    kv_cache.check(wish.kv_type or "f16", wish.flash_attention, model.header)
    devices = [device for device in hardware.devices if device.runtime in runtimes]
    choice = compute.choice(wish.compute, devices)
    if choice.free and wish.gpu_layers == 0:
        choice = compute.Choice(("cpu",))
    if wish.require is not None:
        choice = _required(model, choice, wish)
    if choice.devices:
        runtimes = [choice.devices[0].runtime]
    case = _Case(model, hardware, wish, choice)
    # reason -> the units that were there and passed over
    passed_over: dict[str, list[str]] = {}
    would_do: str | None = None
    for unit in choice.units:
        for runtime in runtimes:
            mine = [device for device in devices if device.runtime == runtime]
            try:
                found = _candidate(case, runtime, unit, mine)
            except _Refused as refused:
                refusals.append(f"{unit}: {refused.reason}")
                would_do = refused.hint or would_do
                if refused.device:
                    passed_over.setdefault(refused.reason, []).append(unit)
                continue
            return _explained(case, found, refusals, passed_over)
    if not choice.free:
        flag = f"--require {wish.require}" if wish.require else "--compute"
        would_do = would_do or f"leave `{flag}` out, and geniex chooses what fits"
    raise NoRuntimeError(model.name, refusals, hint=would_do)


def _required(model: ResolvedModel, choice: compute.Choice, wish: Wish) -> compute.Choice:
    """The choice among what is required. Raises NoRuntimeError where something else was asked."""
    if choice.free:
        return compute.Choice(tuple(unit for unit in choice.units if unit == wish.require))
    if choice.units != (wish.require,):
        asked = f"`--compute {wish.compute}`" if wish.compute else f"`--ngl {wish.gpu_layers}`"
        raise NoRuntimeError(
            model.name,
            [f"{asked} runs elsewhere than on the {wish.require}, which `--require` asks for"],
            hint="leave `--compute` or `--require` out",
        )
    return choice


def _what_to_do(
    model: ResolvedModel, availability: Mapping[str, Availability], wish: Wish
) -> str | None:
    """What would make a runtime fit: install it, or ask for no other one."""
    fitting = {n: s for n, s in availability.items() if model.format in s.formats}
    if wish.runtime is not None and wish.runtime not in fitting:
        return f"leave `--runtime {wish.runtime}` out" if fitting else None
    return next((state.hint for state in fitting.values() if state.hint), None)


def require_chat(name: str, header: GGUFHeader) -> None:
    """Raise NoRuntimeError for a file that no runtime can chat with, by its header."""
    if header.role in _NOT_FOR_CHAT:
        raise NoRuntimeError(name, [_NOT_FOR_CHAT[header.role]])


def require_embedding(name: str, header: GGUFHeader) -> None:
    """Raise NoRuntimeError for a file that gives no vectors, by its header."""
    if header.role in _NOT_FOR_CHAT and header.role != "embedding":
        raise NoRuntimeError(name, [_NOT_FOR_CHAT[header.role]])


def with_draft(plan: Plan, model: ResolvedModel, draft: ResolvedModel, wish: Wish) -> Plan:
    """The plan with the memory of a draft beside the model.

    A context that was ours to choose is shortened until both fit; a note says where it gets too
    much all the same.
    """
    length, free = plan.context_length, plan.available_memory
    if wish.context_length is None and free > 0:
        length = memory.default_context(model, free, draft=draft, most=length, kv_type=plan.kv_type)
    target = memory.need(model, length, plan.kv_type)
    needed = target.total + memory.need(draft, length).total
    reasons, notes = plan.reasons, plan.notes
    if length != plan.context_length:
        reasons = (*reasons, f"with the draft, {length} tokens are what fits the free memory")
    if needed > free > 0 and plan.needed_memory <= free:
        notes = (*notes, memory.tight(needed, free, " with the draft"))
    return replace(plan, context_length=length, needed_memory=needed, reasons=reasons, notes=notes)


def _runtimes(
    model: ResolvedModel, availability: Mapping[str, Availability], wish: Wish
) -> tuple[list[str], list[str]]:
    """The runtimes that could run the model, and why others cannot."""
    asked = wish.runtime
    if asked is not None and asked not in availability:
        raise UsageError(f"unknown runtime `{asked}`; known: {', '.join(availability)}")
    usable: list[str] = []
    refusals: list[str] = []
    for name, state in availability.items():
        if asked is not None and name != asked:
            continue
        if state.formats and model.format not in state.formats:
            # only worth a word to who asked for it
            if asked is not None:
                runs = ", ".join(sorted(state.formats))
                refusals.append(f"{name}: it runs {runs} models, and this one is {model.format}")
        elif not state.available:
            refusals.append(f"{name}: {state.reason or 'it is not available'}")
        else:
            usable.append(name)
    if not usable and not refusals:
        refusals.append(f"no runtime runs {model.format} models")
    return usable, refusals


def _candidate(case: _Case, runtime: str, unit: ComputeUnit, devices: Sequence[Device]) -> Plan:
    """The plan for one runtime and unit. Raises _Refused."""
    behind = case.choice.devices or compute.behind(unit, devices)
    if not behind:
        raise _Refused(_nothing_there(unit, runtime, case.hardware), device=False)
    least = memory.need(case.model, _context(case, 0), case.kv_type)
    layers = 0 if unit == "cpu" else case.wish.gpu_layers
    share = _share(case.model, layers) if unit != "cpu" else 1.0
    if unit in ("gpu", "npu") and not case.choice.devices:
        behind = compute.enough(behind, round(least.total * share))
    if case.choice.free:
        _prefer(case, unit, behind, round(least.total * share))
    if case.wish.require is not None:
        _whole(case, unit, behind, share)
    total, free = _memory(case.hardware, unit, behind)
    context = _context(case, free)
    need = memory.need(case.model, context, case.kv_type)
    _possible(case, unit, need, total, share)
    return Plan(
        runtime=runtime,
        compute=unit,
        devices=() if unit == "cpu" else tuple(device.name for device in behind),
        gpu_layers=layers,
        context_length=context,
        needed_memory=need.total,
        available_memory=free,
        kv_type=case.kv_type,
    )


def _whole(case: _Case, unit: ComputeUnit, devices: Sequence[Device], share: float) -> None:
    """Refuse a unit that is required where it would not do all of the work. Raises _Refused."""
    if unit == "cpu":
        return
    if share < 1.0:
        raise _Refused(f"`--ngl {case.wish.gpu_layers}` leaves a part of the model on the CPU")
    if devices[0].name.startswith("HTP") and not _htp_runs(case.model.precision):
        raise _Refused(f"it has no kernels for {case.model.precision}: the CPU would do much of it")


def _nothing_there(unit: ComputeUnit, runtime: str, hardware: HardwareProfile) -> str:
    if unit == "hybrid":
        return f"{runtime} reports nothing besides the CPU to share the work with"
    reason = f"{runtime} reports no {unit.upper()} device"
    if unit == "npu" and hardware.chipset and runtime == "llama_cpp":
        reason += f", though {hardware.chipset} has one: it takes a build with Hexagon (README)"
    return reason


def _share(model: ResolvedModel, layers: int) -> float:
    """How much of the model is on the device when only so many layers are (-1: all)."""
    blocks = model.header.block_count if model.header is not None else 0
    # the output counts as one layer more
    return 1.0 if layers < 0 or blocks == 0 else min(1.0, layers / (blocks + 1))


def _prefer(case: _Case, unit: ComputeUnit, devices: Sequence[Device], needed: int) -> None:
    """The rules for a unit that nobody asked for. Raises _Refused."""
    if unit == "cpu":
        return
    if (case.hardware.chipset or "").casefold() in CPU_IS_FASTER:
        raise _Refused("the CPU of this device is faster")
    htp = devices[0].name.startswith("HTP")
    if htp and not _htp_runs(case.model.precision):
        raise _Refused(f"it has no kernels for {case.model.precision}, and runs Q4_0 best")
    room = compute.total(devices, compute.room)
    if not room or needed <= room:
        return
    reason = f"the model needs {size_text(needed)}, {_names(devices)} can take {size_text(room)}"
    if htp:
        sessions = math.ceil(needed / compute.HTP_SESSION)
        raise _Refused(f"{reason}; GGML_HEXAGON_DEVICES={sessions} opens enough sessions")
    raise _Refused(reason + _partly(case.model, unit, room / needed))


def _partly(model: ResolvedModel, unit: ComputeUnit, fraction: float) -> str:
    """What to type to put a part of the model onto a device that is too small for all of it."""
    blocks = model.header.block_count if model.header is not None else 0
    # one layer less than would just fit: the estimate is no promise
    layers = math.floor((blocks + 1) * fraction) - 1
    if layers < 1:
        return ""
    return f"; `--compute {unit} --ngl {layers}` puts {layers} of {blocks} layers there"


def _htp_runs(precision: str | None) -> bool:
    if precision is None:
        return True
    # the tag of a model on Docker Hub says more: 360M-Q4_0
    label = label_of(precision) or precision
    return label.removeprefix("UD-").startswith(HTP_PRECISIONS)


def _memory(
    hardware: HardwareProfile, unit: ComputeUnit, devices: Sequence[Device]
) -> tuple[int, int]:
    """(total, free) bytes for a model there; the NPU works in the machine's own memory."""
    machine = (hardware.memory_total, hardware.memory_free)
    if unit in ("cpu", "npu"):
        return machine
    if unit == "hybrid":
        own = [device for device in devices if not compute.shares_memory(device)]
        return (
            machine[0] + compute.total(own, compute.capacity),
            machine[1] + compute.total(own, compute.room),
        )
    total = compute.total(devices, compute.capacity)
    return (total, compute.total(devices, compute.room)) if total else machine


def _context(case: _Case, free: int) -> int:
    return case.wish.context_length or memory.default_context(
        case.model, free, kv_type=case.kv_type
    )


def _possible(
    case: _Case, unit: ComputeUnit, need: memory.MemoryNeed, total: int, share: float
) -> None:
    """Refuse what cannot work at all: more memory than there is, were it all free."""
    if not total:
        return
    weights = round(need.weights * share)
    if weights > total:
        more = _partly(case.model, unit, total / need.total) if unit == "gpu" else ""
        raise _Refused(
            f"the weights alone are {size_text(weights)}, the memory is {size_text(total)}{more}"
        )
    needed = round(need.total * share)
    if needed > total and case.wish.context_length is not None:
        fits = memory.largest_context(case.model, round(total / share), case.kv_type)
        raise _Refused(
            f"a context of {case.wish.context_length} tokens needs {size_text(needed)}, the "
            f"memory is {size_text(total)}; `--nctx {fits}` would fit",
            hint=f"`--nctx {fits}` would fit on the {unit}" if fits else None,
        )


def _explained(
    case: _Case,
    found: Plan,
    refusals: Sequence[str],
    passed_over: Mapping[str, Sequence[str]],
) -> Plan:
    """The plan with its reasons, and with notes about what the user may not expect."""
    where = ", ".join(found.devices) or "the CPU"
    why = "is the best unit that fits" if case.choice.free else "was asked for"
    trained = memory.longest(case.model)
    reasons = (
        f"{found.runtime} runs {case.model.format} models",
        f"{found.compute} ({where}) {why}",
        _context_reason(case.wish.context_length, found.context_length, trained),
    )
    notes = [
        f"not on the {' and '.join(units)}: {reason}; using the {found.compute} "
        "(`--compute` overrides)"
        for reason, units in passed_over.items()
    ]
    if found.compute == "cpu" and case.wish.gpu_layers > 0:
        notes.append(f"`--ngl {case.wish.gpu_layers}` does nothing on the CPU alone")
    if case.wish.context_length and trained is not None and found.context_length > trained:
        notes.append(f"the model was trained for {trained} tokens: beyond them answers get worse")
    if found.needed_memory > found.available_memory > 0:
        notes.append(memory.tight(found.needed_memory, found.available_memory))
    if any(name.startswith("HTP") for name in found.devices) and not _htp_runs(
        case.model.precision
    ):
        notes.append(
            f"the NPU has no kernels for {case.model.precision}: much of the work goes back to the "
            "CPU; Q4_0 runs best"
        )
    return replace(found, reasons=reasons, refusals=tuple(refusals), notes=tuple(notes))


def _context_reason(asked: int | None, context: int, trained: int | None) -> str:
    if asked is not None:
        return f"a context of {context} tokens was asked for"
    if context == trained:
        return f"a context of {context} tokens is what the model was trained for"
    if context == memory.DEFAULT_CONTEXT:
        return f"a context of {context} tokens is the default; `--nctx` changes it"
    return f"a context of {context} tokens is what fits the free memory"


def _names(devices: Sequence[Device]) -> str:
    return " + ".join(device.name for device in devices)
