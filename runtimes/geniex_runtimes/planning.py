"""What is wanted of a plan, and what a plan is: which runtime runs a model, on what, and why."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from geniex_runtimes.options import ComputeUnit, FlashAttention, KvType

Required: TypeAlias = Literal["npu", "gpu", "cpu"]
REQUIRABLE: tuple[Required, ...] = get_args(Required)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for; None means: choose.

    `compute` is a unit or a comma list of device names. `require` is the unit that all of the work
    is to be done on: what would run elsewhere is refused. `embedding`: vectors, not text.
    `kv_type` is what the KV cache is kept in, None for f16.
    """

    runtime: str | None = None
    compute: str | None = None
    context_length: int | None = None
    gpu_layers: int = -1
    embedding: bool = False
    require: Required | None = None
    kv_type: KvType | None = None
    flash_attention: FlashAttention = "auto"


@dataclass(frozen=True, slots=True)
class Compiled:
    """What was settled when a bundle was compiled: the context in tokens, the memory in bytes.

    `htp_arch` is the architecture of the NPU that it is for, None where the bundle does not say.
    """

    context_length: int
    memory: int
    htp_arch: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The choice: what runs the model, on what, and why.

    `needed_memory` is weights, KV and work buffers in bytes; `refusals` is why each better
    candidate was not taken; `notes` are for the user's eyes (a fallback, a warning). `slots` is
    how many requests can run side by side at most, None: any number. `kv_type` is what the KV cache
    is kept in, None where that was compiled.
    """

    runtime: str
    compute: ComputeUnit
    devices: tuple[str, ...]
    gpu_layers: int
    context_length: int
    needed_memory: int
    available_memory: int
    reasons: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    slots: int | None = None
    kv_type: KvType | None = None
