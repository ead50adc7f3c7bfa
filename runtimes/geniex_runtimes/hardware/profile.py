"""The whole machine in one value: every probe asked once, none of them able to fail the caller."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from geniex_runtimes import registry
from geniex_runtimes.contract import Device, HardwareProfile, ProbeResult
from geniex_runtimes.hardware import cgroup, chipset, cpu, ram
from geniex_runtimes.hardware.sources import Sources, this_machine
from geniex_runtimes.llama_cpp import selftest

T = TypeVar("T")


def probe(data_dir: Path, sources: Sources | None = None) -> HardwareProfile:
    """Look at the machine. Never raises: what cannot be found out is a probe with a reason.

    The first call after llama.cpp was installed tests it in a child process (about a second);
    the result is kept in `data_dir`.
    """
    sources = sources or this_machine()
    probes: list[ProbeResult] = []

    def ask(name: str, call: Callable[[], tuple[T, ProbeResult]], nothing: T) -> T:
        try:
            value, result = call()
        except Exception as exc:
            # a probe's mistake is a line in `doctor`, not the end of the command
            value, result = nothing, ProbeResult(name, None, f"{type(exc).__name__}: {exc}")
        probes.append(result)
        return value

    limits = _limits(sources)
    processor = ask(
        "cpu",
        lambda: cpu.probe(sources, limits),
        cpu.Cpu(sources.machine or "unknown CPU", frozenset(), 1, 1, 1),
    )
    memory = ask("memory", lambda: ram.probe(sources, limits), (0, 0))
    soc = ask("chipset", lambda: chipset.probe(sources), None)
    devices: list[Device] = []
    for name in registry.names():
        nothing: tuple[Device, ...] = ()
        devices += ask(f"runtime {name}", partial(_runtime, name), nothing)
    extra_buffers = ask("extra buffers", lambda: selftest.probe(data_dir, processor.name), False)
    return HardwareProfile(
        system=sources.system,
        machine=sources.machine,
        cpu=processor.name,
        cpu_features=processor.features,
        cores=processor.cores,
        logical_cores=processor.logical_cores,
        performance_cores=processor.performance_cores,
        memory_total=memory[0],
        memory_free=memory[1],
        chipset=soc.name if soc else None,
        htp_arch=soc.htp_arch if soc else None,
        devices=tuple(devices),
        extra_buffers=extra_buffers,
        probes=tuple(probes),
    )


def _limits(sources: Sources) -> cgroup.Limits:
    try:
        return cgroup.read(sources)
    except (ValueError, OSError):
        # unreadable control files: the machine's own numbers hold
        return cgroup.Limits()


def _runtime(name: str) -> tuple[tuple[Device, ...], ProbeResult]:
    """A runtime's devices; the probe says its version, or why it is not there."""
    label = f"runtime {name}"
    availability = registry.availability_of(name)
    if not availability.available:
        told = "; ".join(filter(None, (availability.reason, availability.hint)))
        return (), ProbeResult(label, None, told or None)
    devices = registry.get(name).devices()
    names = ", ".join(f"{device.name} ({device.unit})" for device in devices)
    found = f"{availability.version or 'installed'}: {names or 'no device'}"
    return devices, ProbeResult(label, ", ".join(filter(None, (found, availability.detail))))
