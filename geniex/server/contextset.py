"""A set of contexts in the pool: on its way, there, or on its way out."""

import time
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from geniex.server.finder import Identity
from geniex.server.footprint import Footprint
from geniex.server.reading import Asked
from geniex.server.residents import Purpose, Resident
from geniex.session import OpenModel
from geniex.speculation import Speculation
from geniex_catalogue.errors import GenieXError
from geniex_runtimes.contract import HasWorker
from geniex_runtimes.options import ComputeUnit, KvType, SpeculativeOptions
from geniex_runtimes.planning import (
    Plan,
)

_MOST_ASKED = 256

State: TypeAlias = Literal["loading", "ready", "closing", "failed"]


@dataclass(frozen=True, slots=True)
class Key:
    """What contexts are made from: wishes that come to the same share them."""

    model: Identity
    draft: Identity
    runtime: str
    compute: ComputeUnit
    devices: tuple[str, ...]
    gpu_layers: int
    context_length: int
    speculation: SpeculativeOptions
    purpose: Purpose
    kv_type: KvType | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What one of the wishes that share contexts is told: its plan's notes, and how it speculates.

    Contexts are shared by wishes that come to the same; what was ignored of each differs.
    """

    notes: tuple[str, ...]
    speculation: Speculation


@dataclass(slots=True, eq=False)
class ContextSet:
    """One set; all fields belong to the pool's lock, `model` is there when `state` is ready.

    `asked` are the wishes that come to it, `told` is for the one it was loaded for. `leases` counts
    the requests that have it or wait for it. `keep_alive` is seconds, None for
    ever, as the last request said. `retiring` takes no new requests and goes once it is idle.
    """

    key: Key
    name: str
    plan: Plan
    footprint: Footprint
    slots: int
    pinned: bool
    keep_alive: float | None
    told: Told
    asked: dict[Asked, Told] = field(default_factory=dict)
    state: State = "loading"
    model: OpenModel | None = None
    error: GenieXError | None = None
    leases: int = 0
    idle_since: float = 0.0
    retiring: bool = False
    given_up: bool = False

    @property
    def joinable(self) -> bool:
        """Whether another request may have it."""
        return not self.retiring and self.state in ("loading", "ready")

    @property
    def idle(self) -> bool:
        """Whether it is there and nobody has it."""
        return self.state == "ready" and self.leases == 0

    @property
    def expires_at(self) -> float | None:
        """When it is to go, on the monotonic clock; None for not by itself."""
        if not self.idle:
            return None
        if self.retiring:
            return self.idle_since
        return None if self.keep_alive is None else self.idle_since + self.keep_alive

    def remember(self, asked: Asked, told: Told) -> None:
        """Another wish that comes to these contexts; too many are asked anew each time."""
        if len(self.asked) < _MOST_ASKED:
            self.asked[asked] = told

    def ready(self, model: OpenModel) -> None:
        """It is loaded."""
        self.model = model
        self.state = "ready"
        self.idle_since = time.monotonic()

    def facts(self, *, stays: bool = False) -> Resident:
        """What others may know of it; `stays`: it goes at no time."""
        now = time.monotonic()
        plan = self.plan
        info = self.model.loaded.info if self.model is not None else None
        loading = self.state == "loading"
        busy = 0 if loading else min(self.leases, self.slots)
        expires = None if stays else self.expires_at
        loaded = self.model.loaded if self.model is not None else None
        worker = loaded if isinstance(loaded, HasWorker) else None
        return Resident(
            id=self.name,
            runtime=plan.runtime,
            compute=plan.compute,
            devices=plan.devices,
            context_length=info.context_length if info else plan.context_length,
            slots=self.slots,
            busy=busy,
            waiting=self.leases - busy,
            bytes=self.footprint.total,
            shared_bytes=self.footprint.shared,
            idle_for=now - self.idle_since if self.idle else None,
            expires_in=None if expires is None else max(0.0, expires - now),
            pinned=self.pinned,
            speculation=info.speculation if info else self.key.speculation.types,
            purpose=self.key.purpose,
            loading=loading,
            kv_type=plan.kv_type,
            worker_pid=worker.worker_pid if worker else None,
            crashed=worker is not None and worker.worker_pid is None,
        )
