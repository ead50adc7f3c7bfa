"""The processor: name, instruction sets, cores, and how many cores nobody else is using."""

import math
import os
import time
from dataclasses import dataclass
from typing import Any

from geniex_runtimes.contract import ProbeResult
from geniex_runtimes.hardware import cgroup
from geniex_runtimes.hardware.cpu_sets import read_cpu_sets
from geniex_runtimes.hardware.sources import Sources, this_machine

CPU_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
# seconds; the kernel counts in ticks of 10 ms, so much less would see nothing
SAMPLE = 0.05

# what inference cares about, in the spelling of Linux
_NOTABLE = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni"),
    *("avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"),
)

_X86 = frozenset({"x86_64", "amd64"})

# numbers of IsProcessorFeaturePresent -> the same in the spelling of Linux
_WINDOWS_FEATURES = {
    36: "ssse3",
    37: "sse4_1",
    38: "sse4_2",
    39: "avx",
    40: "avx2",
    41: "avx512f",
    19: "asimd",
    43: "asimddp",
    46: "sve",
    47: "sve2",
    66: "i8mm",
    67: "asimdhp",
    68: "bf16",
}

# ARM's /proc/cpuinfo names cores by number only
_ARM_PARTS = {
    ("0x41", "0xd05"): "Cortex-A55",
    ("0x41", "0xd41"): "Cortex-A78",
    ("0x41", "0xd46"): "Cortex-A510",
    ("0x41", "0xd47"): "Cortex-A710",
    ("0x41", "0xd4b"): "Cortex-A78C",
    ("0x41", "0xd4d"): "Cortex-A715",
    ("0x51", "0x001"): "Oryon",
}


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor as this process may use it; core counts are at least 1.

    `performance_cores` are the physical cores that are not the slow ones of a hybrid CPU.
    """

    name: str
    features: frozenset[str]
    cores: int
    performance_cores: int
    logical_cores: int


def probe(sources: Sources, limits: cgroup.Limits) -> tuple[Cpu, ProbeResult]:
    """The CPU, cut down to the process' affinity and the container's share of time."""
    features, why_not = _features(sources)
    logical, cores, performance = _cores(sources)
    share = max(1, math.floor(limits.cpus)) if limits.cpus is not None else logical
    cpu = Cpu(
        name=_name(sources),
        features=features,
        cores=min(cores, share),
        performance_cores=min(performance, share),
        logical_cores=min(logical, share),
    )
    parts = [cpu.name, f"{cpu.cores} cores ({cpu.logical_cores} logical)"]
    if performance < cores:
        parts.append(f"{cpu.performance_cores} of them fast")
    if share < logical:
        parts.append("limited by the container")
    notable = [feature for feature in _NOTABLE if feature in features]
    if notable:
        parts.append(" ".join(notable))
    return cpu, ProbeResult("cpu", ", ".join(parts), why_not)


def free_cores(sources: Sources | None = None, sample: float = SAMPLE) -> int:
    """Fast physical cores that no other process keeps busy just now; at least 1.

    Watches the machine for `sample` seconds: a thread more than there are free cores makes
    llama.cpp many times slower, as all threads wait for the one that gets no core.
    """
    watch = Watch(sources)
    time.sleep(sample)
    return watch.free_cores()


class Watch:
    """Tells how many cores were free since it was last asked, at no cost in between."""

    def __init__(self, sources: Sources | None = None) -> None:
        import psutil

        sources = sources or this_machine()
        cpu, _ = probe(sources, cgroup.read(sources))
        _, _, self._fast = _cores(sources)
        self._most = cpu.performance_cores
        self._allowed = sources.affinity()
        self._process = psutil.Process()
        self._before = self._used()

    def free_cores(self) -> int:
        """Fast physical cores that no other process kept busy since the last call; at least 1."""
        after = self._used()
        everyone, own, elapsed = (b - a for a, b in zip(self._before, after, strict=True))
        self._before = after
        busy = max(0, round((everyone - own) / elapsed)) if elapsed > 0 else 0
        # a container's neighbours need not be on our share of the cores: take the smaller, not both
        return max(1, min(self._most, self._fast - busy))

    def _used(self) -> tuple[float, float, float]:
        """Seconds so far: all processes on our cores, this process, the clock."""
        import psutil

        own = self._process.cpu_times()
        everyone = sum(
            _busy_seconds(times)
            for cpu, times in enumerate(psutil.cpu_times(percpu=True))
            if self._allowed is None or cpu in self._allowed
        )
        return everyone, own.user + own.system, time.monotonic()


def _busy_seconds(times: Any) -> float:
    idle = times.idle + getattr(times, "iowait", 0.0)
    # a guest's time is in `user` already
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - guest - idle)


def _cpuinfo(sources: Sources) -> list[tuple[str, str]]:
    lines = (sources.text("proc/cpuinfo") or "").splitlines()
    pairs = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in pairs if value.strip()]


def _features(sources: Sources) -> tuple[frozenset[str], str | None]:
    if sources.system == "Windows":
        present = (n for number, n in _WINDOWS_FEATURES.items() if sources.windows_feature(number))
        return frozenset(present), None
    for key, value in _cpuinfo(sources):
        # x86 says `flags`, ARM says `Features`
        if key in ("flags", "Features"):
            return frozenset(value.split()), None
    return frozenset(), f"instruction sets are not known on {sources.system}"


def _name(sources: Sources) -> str:
    windows = sources.registry(CPU_KEY).get("", {}).get("ProcessorNameString")
    if windows:
        return str(windows).strip()
    info = _cpuinfo(sources)
    implementer, arm = "", []
    for key, value in info:
        if key == "model name":
            return value
        if key == "CPU implementer":
            implementer = value
        if key == "CPU part":
            arm.append(_ARM_PARTS.get((implementer, value), f"{implementer}/{value}"))
    # a hybrid lists several kinds
    return " + ".join(dict.fromkeys(arm)) or sources.machine or "unknown CPU"


def _cores(sources: Sources) -> tuple[int, int, int]:
    """(logical, physical, fast physical) cores that this process may run on."""
    topology = _topology(sources)
    if not topology:
        logical = len(sources.affinity() or ()) or os.cpu_count() or 1
        physical = min(sources.physical_cores() or logical, logical)
        return logical, physical, physical
    fast = _fast(sources, topology)
    return (
        len(topology),
        len(set(topology.values())),
        len({core for cpu, core in topology.items() if cpu in fast}),
    )


def _topology(sources: Sources) -> dict[int, str]:
    """Logical CPU -> its physical core, for the CPUs that this process may use."""
    allowed = sources.affinity()
    found = {
        one.cpu: str(one.core)
        for one in read_cpu_sets(sources.cpu_sets())
        if allowed is None or one.cpu in allowed
    }
    for cpu in _cpu_list(sources.text("sys/devices/system/cpu/online") or ""):
        core = sources.text(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        if core and (allowed is None or cpu in allowed):
            found[cpu] = core
    return found


def _fast(sources: Sources, topology: dict[int, str]) -> set[int]:
    """The logical CPUs that are not slow ones.

    On Linux Intel lists them, and ARM gives each a capacity; Windows has kinds.
    """
    kinds = {one.cpu: one.kind for one in read_cpu_sets(sources.cpu_sets()) if one.cpu in topology}
    if kinds:
        # of x86 the best kind is fast; ARM has middle cores, and the least kind is slow
        best, least = max(kinds.values()), min(kinds.values())
        limit = best if sources.machine.lower() in _X86 else min(best, least + 1)
        return {cpu for cpu, kind in kinds.items() if kind >= limit}
    intel = _cpu_list(sources.text("sys/devices/cpu_core/cpus") or "")
    if set(intel) & set(topology):
        return set(intel)
    capacity = {
        cpu: int(text)
        for cpu in topology
        if (text := sources.text(f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity") or "").isdigit()
    }
    # half of the best: above it are middle cores, below it the ones that all others wait for
    half = max(capacity.values(), default=0) / 2
    return {cpu for cpu in topology if capacity.get(cpu, half) >= half}


def _cpu_list(text: str) -> list[int]:
    """`0-3,8` -> 0 1 2 3 8."""
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            cpus.extend(range(int(first), int(last if last.isdigit() else first) + 1))
    return cpus
