"""What the server counts, for Prometheus, in a registry of its own.

Labels are few: routes by their template, known methods, and models by the canonical name that the
store has for them. A name that a request made up is no label.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from geniex.server.gauges import Gauges
from geniex_runtimes.contract import Profile

if TYPE_CHECKING:
    from geniex.server.observed import Observed
    from geniex.server.pool_events import LoadResult, Reason
    from geniex.server.state import ServerState

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SPEEDS = (1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)
_MOST_MODELS = 256  # with a name of their own; a store seldom has as many
OTHERS = "others"

_COUNTS = {
    "prompt_tokens": "Prompt tokens, those that were reused included",
    "cached_tokens": "Prompt tokens that were reused",
    "generated_tokens": "Tokens generated",
    "draft_tokens_proposed": "Draft tokens that speculation proposed",
    "draft_tokens_accepted": "Draft tokens that the target accepted",
}
_HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "ttft_seconds": ("Seconds from the start of the generation to its first token", _SECONDS),
    "queue_seconds": ("Seconds that a generation waited for a slot, a part of its ttft", _SECONDS),
    "decode_tokens_per_second": ("Tokens per second after the first one, of each answer", _SPEEDS),
    "load_seconds": ("Seconds that loading a model took", _SECONDS),
}


class Metrics:
    """Counters and histograms of one server; `watch` adds what it holds just now.

    All methods may be called from any thread.
    """

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        # the usual names for what a process takes, where /proc tells them
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "geniex_requests", "Requests answered", ("route", "method", "status"), registry=registry
        )
        self._durations = Histogram(
            "geniex_request_seconds",
            "Seconds from a request to the end of its answer",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._cancelled = Counter(
            "geniex_requests_cancelled",
            "Requests whose client went before the answer was whole",
            ("route",),
            registry=registry,
        )
        self._loads = Counter(
            "geniex_model_loads",
            "Loads of models that have ended: loaded, failed or cancelled",
            ("model", "result"),
            registry=registry,
        )
        self._evictions = Counter(
            "geniex_model_evictions",
            "Sets of contexts that were given up: for memory, idle for long, unload, end",
            ("model", "reason"),
            registry=registry,
        )
        model = ("model",)
        self._tokens = {
            name: Counter(f"geniex_{name}", text, model, registry=registry)
            for name, text in _COUNTS.items()
        }
        self._histograms = {
            name: Histogram(f"geniex_{name}", text, model, buckets=buckets, registry=registry)
            for name, (text, buckets) in _HISTOGRAMS.items()
        }
        self._lock = threading.Lock()
        self._models: set[str] = set()

    def requested(self, request: Observed) -> None:
        """Count a request that has ended."""
        self._requests.labels(request.route, request.method, str(request.status)).inc()
        self._durations.labels(request.route).observe(request.seconds)
        if request.cancelled:
            self._cancelled.labels(request.route).inc()

    def answered(self, model: str, profile: Profile) -> None:
        """Count what a generation took, ended or cancelled; `model` is its canonical name."""
        label = self._label(model)
        counts = {
            "prompt_tokens": profile.prompt_tokens,
            "cached_tokens": profile.cached_tokens,
            "generated_tokens": profile.generated_tokens,
            "draft_tokens_proposed": profile.draft_proposed,
            "draft_tokens_accepted": profile.draft_accepted,
        }
        for name, count in counts.items():
            self._tokens[name].labels(label).inc(count)
        if profile.generated_tokens:
            self._histograms["ttft_seconds"].labels(label).observe(profile.ttft)
            self._histograms["queue_seconds"].labels(label).observe(profile.queue_time)
        if profile.decode_speed:
            self._histograms["decode_tokens_per_second"].labels(label).observe(profile.decode_speed)

    def embedded(self, model: str, tokens: int) -> None:
        """Count tokens that were turned into vectors."""
        self._tokens["prompt_tokens"].labels(self._label(model)).inc(tokens)

    def loaded(self, model: str, seconds: float, result: LoadResult) -> None:
        """Count a load that has ended."""
        label = self._label(model)
        self._loads.labels(label, result).inc()
        if result == "loaded":
            self._histograms["load_seconds"].labels(label).observe(seconds)

    def freed(self, model: str, reason: Reason) -> None:
        """Count a set of contexts that was given up."""
        self._evictions.labels(self._label(model), reason).inc()

    def watch(self, state: ServerState) -> None:
        """Show, at each look, what the server and its models hold."""
        state.pool.events = self
        self._registry.register(Gauges(state, self._label))

    def text(self) -> bytes:
        """All of it in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _label(self, model: str) -> str:
        """The model's name; a common one once there are very many."""
        with self._lock:
            if model not in self._models and len(self._models) >= _MOST_MODELS:
                return OTHERS
            self._models.add(model)
        return model
