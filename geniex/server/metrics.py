"""What the server counts, for Prometheus, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from geniex_runtimes.contract import Profile

if TYPE_CHECKING:
    from geniex.server.pool import Resident

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SPEEDS = (1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)


class Metrics:
    """Counters and histograms of one server; `watch` adds what the pool holds."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
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
        model = ("model",)
        self._tokens = {
            name: Counter(f"geniex_{name}", text, model, registry=registry)
            for name, text in (
                ("prompt_tokens", "Prompt tokens, those that were reused included"),
                ("cached_tokens", "Prompt tokens that were reused"),
                ("generated_tokens", "Tokens generated"),
                ("draft_tokens_proposed", "Draft tokens that speculation proposed"),
                ("draft_tokens_accepted", "Draft tokens that the target accepted"),
            )
        }
        self._ttft = Histogram(
            "geniex_ttft_seconds",
            "Seconds from the start of the generation to its first token",
            model,
            buckets=_SECONDS,
            registry=registry,
        )
        self._speed = Histogram(
            "geniex_decode_tokens_per_second",
            "Tokens per second after the first one, of each answer",
            model,
            buckets=_SPEEDS,
            registry=registry,
        )

    def requested(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._durations.labels(route).observe(seconds)

    def answered(self, model: str, profile: Profile) -> None:
        """Count what a generation took, ended or cancelled; `model` is its canonical name."""
        counts = {
            "prompt_tokens": profile.prompt_tokens,
            "cached_tokens": profile.cached_tokens,
            "generated_tokens": profile.generated_tokens,
            "draft_tokens_proposed": profile.draft_proposed,
            "draft_tokens_accepted": profile.draft_accepted,
        }
        for name, count in counts.items():
            self._tokens[name].labels(model).inc(count)
        if profile.generated_tokens:
            self._ttft.labels(model).observe(profile.ttft)
        if profile.decode_speed:
            self._speed.labels(model).observe(profile.decode_speed)

    def watch(self, residents: Callable[[], Iterable[Resident]]) -> None:
        """Show, at each look, the slots, queues and bytes of the models in memory."""
        self._registry.register(_PoolCollector(residents))

    def text(self) -> bytes:
        """All of it in the text format of Prometheus."""
        return generate_latest(self._registry)


class _PoolCollector(Collector):
    def __init__(self, residents: Callable[[], Iterable[Resident]]) -> None:
        self._residents = residents

    def describe(self) -> Iterable[Metric]:
        return _families().values()

    def collect(self) -> Iterator[Metric]:
        families = _families()
        totals: dict[tuple[str, str], float] = {}
        # contexts with other options are other residents of the same model
        for resident in self._residents():
            for name in families:
                key = (name, resident.id)
                totals[key] = totals.get(key, 0) + float(getattr(resident, name))
        for (name, model), value in totals.items():
            families[name].add_metric([model], value)
        yield from families.values()


def _families() -> dict[str, GaugeMetricFamily]:
    texts = {
        "slots": ("geniex_slots", "Answers that can run side by side"),
        "busy": ("geniex_slots_busy", "Slots that answer now"),
        "waiting": ("geniex_requests_waiting", "Requests that wait for a slot"),
        "bytes": ("geniex_model_bytes", "Memory that the model takes"),
    }
    return {
        name: GaugeMetricFamily(metric, text, labels=["model"])
        for name, (metric, text) in texts.items()
    }
