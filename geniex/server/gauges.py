"""What the server holds at the moment it is asked: models, slots, queues, memory, workers."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from geniex import __version__

if TYPE_CHECKING:
    from geniex.server.state import ServerState

_PER_MODEL = {
    "slots": ("geniex_slots", "Answers that can run side by side"),
    "busy": ("geniex_slots_busy", "Slots that answer now"),
    "waiting": ("geniex_requests_waiting", "Requests that wait for a slot or a load"),
    "bytes": ("geniex_model_bytes", "Memory that the model takes, as estimated"),
    "loading": ("geniex_models_loading", "Loads that are going on"),
}


class Gauges(Collector):
    """Looks anew at each scrape; `label` is the label of a model."""

    def __init__(self, state: ServerState, label: Callable[[str], str]) -> None:
        self._state = state
        self._label = label
        self._build = _build_info()

    def describe(self) -> Iterable[Metric]:
        """The names of the models' families: so a second one is refused."""
        return _families().values()

    def collect(self) -> Iterator[Metric]:
        """What there is just now."""
        yield from self._models()
        yield from self._server()
        yield from _memory()
        yield self._build

    def _models(self) -> Iterable[Metric]:
        families = _families()
        totals: dict[tuple[str, str], float] = {}
        # contexts with other options are other residents of the same model, on the same weights
        weighed: set[str] = set()
        for resident in self._state.pool.residents():
            label = self._label(resident.id)
            for name in families:
                held = float(getattr(resident, name))
                if name == "bytes" and resident.id in weighed:
                    held -= resident.shared_bytes
                totals[name, label] = totals.get((name, label), 0) + held
            weighed.add(resident.id)
        for (name, label), value in totals.items():
            families[name].add_metric([label], value)
        return families.values()

    def _server(self) -> Iterator[Metric]:
        state = self._state
        for name, text, value in (
            ("geniex_requests_active", "Requests that are being answered", state.active),
            ("geniex_draining", "1 once the server is about to end", state.draining),
            ("geniex_start_time_seconds", "When it began, since the epoch", state.started),
        ):
            yield GaugeMetricFamily(name, text, value=float(value))


def _memory() -> Iterator[Metric]:
    """Memory of this process and of its workers, on every platform."""
    import psutil

    me = psutil.Process()
    workers = [size for one in me.children(recursive=True) if (size := _resident(one)) is not None]
    for name, text, value in (
        ("geniex_resident_bytes", "Memory of the server's own process", _resident(me) or 0),
        ("geniex_workers", "Processes that the server has started", len(workers)),
        ("geniex_workers_resident_bytes", "Memory of those processes", sum(workers)),
    ):
        yield GaugeMetricFamily(name, text, value=float(value))


def _resident(process: object) -> int | None:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return None  # it has just ended


def _build_info() -> GaugeMetricFamily:
    labels = {
        "version": __version__,
        "llama_cpp_python": _version_of("llama-cpp-python"),
        "onnxruntime_qnn": _version_of("onnxruntime-qnn"),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine().lower()}",
    }
    info = GaugeMetricFamily("geniex_build_info", "What runs here; always 1", labels=[*labels])
    info.add_metric([*labels.values()], 1.0)
    return info


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _families() -> dict[str, GaugeMetricFamily]:
    return {
        name: GaugeMetricFamily(metric, text, labels=["model"])
        for name, (metric, text) in _PER_MODEL.items()
    }
