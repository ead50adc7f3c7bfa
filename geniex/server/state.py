"""What every route of one server shares."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geniex.config import Settings
from geniex.server.metrics import Metrics
from geniex.server.options import ServerOptions

if TYPE_CHECKING:
    from geniex.server.pool import Pool
    from geniex.server.prompt_log import PromptLog
    from geniex.server.tracing import Tracing


@dataclass
class ServerState:
    """The server: what it was told, the models in memory, its counters.

    `started` is seconds since the epoch. `draining` is set once and for all when the server is to
    end; `active` counts the requests that are being answered; `not_ready` says why the model that
    was to be loaded first is not there yet.
    """

    settings: Settings
    options: ServerOptions
    pool: Pool
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing | None = None
    prompts: PromptLog | None = None
    started: float = field(default_factory=time.time)
    draining: bool = False
    active: int = 0
    not_ready: str | None = None
