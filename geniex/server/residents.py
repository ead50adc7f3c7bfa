"""What the pool holds, as others see it: wishes, options, and the facts of a resident."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from geniex.speculation_wish import NO_WISH, SpeculationWish
from geniex_runtimes.options import ComputeUnit, KvType
from geniex_runtimes.planning import Required

# a request answers in text, or gives vectors: the contexts for them differ
Purpose: TypeAlias = Literal["text", "embedding"]


@dataclass(frozen=True, slots=True)
class ModelWish:
    """What a request asks for; None is what the settings say.

    `nctx` is tokens, `ngl` -1 is all layers. `purpose` None is what the model was made for.
    """

    name: str | None = None
    nctx: int | None = None
    ngl: int | None = None
    compute: str | None = None
    require: Required | None = None
    speculation: SpeculationWish = NO_WISH
    purpose: Purpose | None = "text"
    kv_type: KvType | None = None


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How the pool keeps models.

    `slots` requests run side by side on a model, `max_queue` more may wait for it. `keep_alive` is
    seconds from the end of the last request (None: for ever). `memory_budget` is bytes for all
    models (None: what the machine has free, less a reserve). `pinned` names stay for good.
    `paths` are the models by path that may be loaded (None: any).
    """

    slots: int = 4
    max_queue: int = 64
    keep_alive: float | None = 300.0
    memory_budget: int | None = None
    pinned: tuple[str, ...] = ()
    paths: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Resident:
    """A set of contexts in memory, with the weights that they share.

    `id` is the model's canonical name; `busy` requests run and `waiting` ones queue on `slots`.
    `bytes` is an estimate of weights and contexts, of which `shared_bytes` (the weights) count once
    for all contexts of the model. `idle_for` and `expires_in` are seconds (None: while it is busy,
    never). `speculation` are the types that are set up. `worker_pid` is the process that has it
    (None: the server's own), `crashed` that this has died, until the next request.
    """

    id: str
    runtime: str
    compute: ComputeUnit
    devices: tuple[str, ...]
    context_length: int
    slots: int
    busy: int
    waiting: int
    bytes: int
    shared_bytes: int
    idle_for: float | None
    expires_in: float | None
    pinned: bool
    speculation: tuple[str, ...]
    purpose: Purpose = "text"
    loading: bool = False
    worker_pid: int | None = None
    crashed: bool = False
    kv_type: KvType | None = None
