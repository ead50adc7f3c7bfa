"""What becomes known of a request while it is answered: for the log, the counters and the traces.

Threads that work for the request have a copy of its context and so find the same object. No text
of a prompt or an answer is in it, and no header.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from geniex_runtimes.contract import Profile

_MOST_PATH = 200  # characters of an address that is no route
UNKNOWN = "unknown"

_current: ContextVar[Observed | None] = ContextVar("geniex_observed", default=None)


@dataclass(frozen=True, slots=True)
class Generated:
    """One generation of a request; `ended` is nanoseconds since the epoch."""

    profile: Profile
    finish_reason: str
    ended: int


@dataclass(slots=True)
class Observed:
    """One request. Times are nanoseconds since the epoch, `seconds` is what it took in all.

    `asked` is the model as the request named it, `model` its canonical name once it was found.
    `waited` is from when to when it waited for a model to be loaded. `cancelled`: the client went
    before its answer was whole.
    """

    id: str
    method: str
    path: str
    started: int = field(default_factory=time.time_ns)
    route: str = UNKNOWN
    status: int = 0
    seconds: float = 0.0
    asked: str | None = None
    model: str | None = None
    waited: tuple[int, int] | None = None
    embedded_tokens: int = 0
    generated: list[Generated] = field(default_factory=list)
    cancelled: bool = False
    error: str | None = None
    span: Any = None

    def got_model(self, name: str, since: int) -> None:
        """It has a model, for which it waited since then."""
        self.model = name
        self.waited = (since, time.time_ns())

    def answered(self, profile: Profile, finish_reason: str) -> None:
        """One of its generations has ended."""
        self.generated.append(Generated(profile, finish_reason, time.time_ns()))

    @property
    def load_time(self) -> float:
        """Seconds that it waited for a model."""
        return (self.waited[1] - self.waited[0]) / 1e9 if self.waited else 0.0

    def total(self, count: str) -> int:
        """The sum of one of the counts of its generations' profiles."""
        return sum(getattr(one.profile, count) for one in self.generated)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that came in, those of texts to embed included."""
        return self.total("prompt_tokens") + self.embedded_tokens

    @property
    def where(self) -> str:
        """Its route; an address that is none, as it came."""
        # quoted: a path may hold line breaks
        return quote(self.path[:_MOST_PATH], safe="/:") if self.route == UNKNOWN else self.route

    def fields(self) -> dict[str, Any]:
        """The fields of its line in the log; what is not known is left out."""
        found: dict[str, Any] = {"method": self.method, "route": self.route, "status": self.status}
        found["seconds"] = round(self.seconds, 6)
        if self.model is not None:
            found |= {"model": self.model, "load_time": round(self.load_time, 6)}
            found["prompt_tokens"] = self.prompt_tokens
        if self.generated:
            first = self.generated[0].profile
            found |= {
                "cached_tokens": self.total("cached_tokens"),
                "generated_tokens": self.total("generated_tokens"),
                "queue_time": round(first.queue_time, 6),
                "ttft": round(first.ttft, 6),
                "finish_reason": self.generated[-1].finish_reason,
            }
            if any(one.profile.spec_state is not None for one in self.generated):
                found["draft_proposed"] = self.total("draft_proposed")
                found["draft_accepted"] = self.total("draft_accepted")
        if self.cancelled:
            found["cancelled"] = True
        if self.error is not None:
            found["error"] = self.error
        return found


def observe(request: Observed) -> None:
    """From here on, this task and what it starts work for that request."""
    _current.set(request)


def observed() -> Observed:
    """What is known of the request of this task; outside of one, a request that nobody reads."""
    return _current.get() or Observed("-", "", "")
