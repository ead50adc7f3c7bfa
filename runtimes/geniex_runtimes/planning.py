"""What is wanted of a plan, and what a plan is: which runtime runs a model, on what, and why."""

from dataclasses import dataclass

from geniex_runtimes.contract import ComputeUnit


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for; None means: choose.

    `compute` is a unit or a comma list of device names. `embedding`: vectors, not text.
    """

    runtime: str | None = None
    compute: str | None = None
    context_length: int | None = None
    gpu_layers: int = -1
    embedding: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The choice: what runs the model, on what, and why.

    `needed_memory` is weights, KV and work buffers in bytes; `refusals` is why each better
    candidate was not taken; `notes` are for the user's eyes (a fallback, a warning).
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
