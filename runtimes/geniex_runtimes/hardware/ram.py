"""How much memory there is for models, container limits included."""

from geniex_catalogue.sizes import size_text
from geniex_runtimes.contract import ProbeResult
from geniex_runtimes.hardware import cgroup
from geniex_runtimes.hardware.sources import Sources


def probe(sources: Sources, limits: cgroup.Limits) -> tuple[tuple[int, int], ProbeResult]:
    """(total, free) bytes; (0, 0) when the system does not say."""
    try:
        total, free = sources.memory()
    except (OSError, RuntimeError) as exc:
        return (0, 0), ProbeResult("memory", None, f"the system does not say: {exc}")
    note = ""
    if limits.memory is not None and limits.memory < total:
        total = limits.memory
        free = min(free, max(0, limits.memory - limits.memory_used))
        note = ", limited by the container"
    return (total, free), ProbeResult("memory", f"{size_text(total)}, {size_text(free)} free{note}")
