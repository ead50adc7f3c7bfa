"""Where the probes read from: this machine, or a recorded one in a test."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

# subkey name -> its values; the key's own values stand under ""
RegistryKey = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Sources:
    """The questions that probes ask of an operating system.

    `system` is Linux, Windows, Android, Darwin ...; Linux files are read below `root`. `affinity`
    is the set of logical CPUs this process may use (None: all). `memory` is (total, available)
    bytes. `physical_cores` is asked only where there are no topology files, `cpu_sets` (see
    cpu_sets.py) on Windows.
    """

    system: str
    machine: str
    root: Path
    registry: Callable[[str], RegistryKey]
    android_property: Callable[[str], str]
    windows_feature: Callable[[int], bool]
    affinity: Callable[[], set[int] | None]
    memory: Callable[[], tuple[int, int]]
    physical_cores: Callable[[], int | None]
    cpu_sets: Callable[[], bytes] = bytes

    def text(self, path: str) -> str | None:
        """The text of a file below `root`, stripped of blanks and NULs; None when unreadable."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip("\0 \n")
        except OSError:
            return None


def this_machine() -> Sources:
    """The machine that geniex runs on."""
    system = platform.system()
    if system == "Linux" and Path("/system/build.prop").exists():
        system = "Android"
    return Sources(
        system=system,
        machine=platform.machine(),
        root=Path("/"),
        registry=_registry,
        android_property=_android_property,
        windows_feature=_windows_feature,
        affinity=_affinity,
        memory=_memory,
        physical_cores=_physical_cores,
        cpu_sets=_cpu_sets,
    )


def _android_property(name: str) -> str:
    try:
        done = subprocess.run(
            ["getprop", name], capture_output=True, text=True, timeout=2, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _affinity() -> set[int] | None:
    ask = getattr(os, "sched_getaffinity", None)
    if ask is not None:
        return set(ask(0))
    if sys.platform == "win32":
        import psutil

        return set(psutil.Process().cpu_affinity())
    return None


def _memory() -> tuple[int, int]:
    import psutil

    memory = psutil.virtual_memory()
    return memory.total, memory.available


def _physical_cores() -> int | None:
    import psutil

    return psutil.cpu_count(logical=False)


if sys.platform == "win32":
    import ctypes
    import winreg

    def _values(key: winreg.HKEYType) -> dict[str, object]:
        values = (winreg.EnumValue(key, i) for i in range(winreg.QueryInfoKey(key)[1]))
        return {name: data for name, data, _ in values}

    def _registry(path: str) -> RegistryKey:
        found: dict[str, dict[str, object]] = {}
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
                found[""] = _values(key)
                names = [winreg.EnumKey(key, i) for i in range(winreg.QueryInfoKey(key)[0])]
        except OSError:
            return found
        for name in names:
            # some subkeys (`Properties`) are for the system alone
            try:
                with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, f"{path}\\{name}") as subkey:
                    found[name] = _values(subkey)
            except OSError:
                continue
        return found

    def _windows_feature(number: int) -> bool:
        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(number))

    def _cpu_sets() -> bytes:
        ask = ctypes.windll.kernel32.GetSystemCpuSetInformation
        ask.argtypes = [
            *(ctypes.c_void_p, ctypes.c_ulong, ctypes.POINTER(ctypes.c_ulong)),
            *(ctypes.c_void_p, ctypes.c_ulong),
        ]
        size = ctypes.c_ulong(0)
        ask(None, 0, ctypes.byref(size), None, 0)
        buffer = ctypes.create_string_buffer(size.value)
        if not ask(buffer, size.value, ctypes.byref(size), None, 0):
            return b""
        return buffer.raw[: size.value]

else:

    def _registry(path: str) -> RegistryKey:
        return {}

    def _windows_feature(number: int) -> bool:
        return False

    def _cpu_sets() -> bytes:
        return b""
