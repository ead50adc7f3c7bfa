"""Recorded machines: what each operating system answers on each Snapdragon, and on plain x86."""

from collections.abc import Callable, Mapping
from pathlib import Path

from geniex_runtimes.hardware.chipset import CPU_KEY, DISPLAY_CLASS
from geniex_runtimes.hardware.sources import RegistryKey, Sources

GB = 1_000_000_000

X86_FLAGS = "fpu sse4_2 avx f16c fma avx2 avx512f avx512_vnni amx_tile amx_int8"
ARM_FEATURES = "fp asimd evtstrm aes atomics fphp asimdhp asimddp i8mm bf16"


def machine(
    root: Path,
    *,
    system: str = "Linux",
    files: Mapping[str, str] | None = None,
    registry: Mapping[str, RegistryKey] | None = None,
    properties: Mapping[str, str] | None = None,
    windows_features: frozenset[int] = frozenset(),
    affinity: set[int] | None = None,
    memory: tuple[int, int] = (16 * GB, 10 * GB),
    physical_cores: int | None = None,
    processor: str = "aarch64",
    cpu_sets: bytes = b"",
) -> Sources:
    """A machine that answers exactly this; `files` are written below `root`."""
    for name, text in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Sources(
        system=system,
        machine=processor,
        root=root,
        registry=lambda path: (registry or {}).get(path, {}),
        android_property=lambda name: (properties or {}).get(name, ""),
        windows_feature=lambda number: number in windows_features,
        affinity=lambda: affinity,
        memory=lambda: memory,
        physical_cores=lambda: physical_cores,
        cpu_sets=lambda: cpu_sets,
    )


def device_tree(*compatible: str) -> dict[str, str]:
    """As the kernel shows it: every entry ends with a NUL."""
    return {"proc/device-tree/compatible": "".join(f"{entry}\0" for entry in compatible)}


def soc0(family: str, name: str) -> dict[str, str]:
    return {
        "sys/devices/soc0/family": f"{family}\n",
        "sys/devices/soc0/machine": f"{name}\n",
    }


def windows(cpu: str, *adapters: tuple[str, str]) -> dict[str, RegistryKey]:
    """The keys of the CPU and of the display adapters (MatchingDeviceId, DriverDesc)."""
    display: dict[str, Mapping[str, object]] = {"": {"Class": "Display"}}
    for index, (device_id, description) in enumerate(adapters):
        display[f"{index:04}"] = {"MatchingDeviceId": device_id, "DriverDesc": description}
    # a key of another sort, which has neither value
    display["Configuration"] = {"Version": 1}
    return {CPU_KEY: {"": {"ProcessorNameString": cpu}}, DISPLAY_CLASS: display}


def cores(siblings: Mapping[int, str], **more: str) -> dict[str, str]:
    """Topology files: logical CPU -> the list of those on the same core."""
    files = {"sys/devices/system/cpu/online": f"0-{len(siblings) - 1}\n"}
    for cpu, together in siblings.items():
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        files[f"{folder}/topology/thread_siblings_list"] = f"{together}\n"
    return files | more


def capacities(*values: int) -> dict[str, str]:
    """ARM's measure of each core, 1024 for the fastest."""
    return {
        f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": f"{value}\n"
        for cpu, value in enumerate(values)
    }


def arm_cpuinfo(*parts: str, implementer: str = "0x41") -> str:
    """/proc/cpuinfo of an ARM machine with one core of each part."""
    return "\n".join(
        f"processor\t: {index}\nFeatures\t: {ARM_FEATURES}\n"
        f"CPU implementer\t: {implementer}\nCPU part\t: {part}\n"
        for index, part in enumerate(parts)
    )


def qcs6490(root: Path) -> Sources:
    """A Dragonwing RB3 Gen 2: one prime, three middle and four small cores."""
    files = device_tree("qcom,qcs6490-rb3gen2", "qcom,qcs6490")
    files |= cores({cpu: str(cpu) for cpu in range(8)})
    files |= capacities(*[350] * 4, *[900] * 3, 1024)
    files["proc/cpuinfo"] = arm_cpuinfo(*["0xd05"] * 4, *["0xd41"] * 4)
    return machine(root, files=files, memory=(6 * GB, 4 * GB))


def x_elite_windows(root: Path) -> Sources:
    """A laptop whose first display adapter is a virtual one."""
    registry = windows(
        "Snapdragon(R) X Elite - X1E78100 - Qualcomm(R) Oryon(TM) CPU",
        (r"root\vdd", "Virtual Display Driver"),
        (r"ACPI\VEN_QCOM&DEV_0C36", "Qualcomm(R) Adreno(TM) X1-85 GPU"),
    )
    return machine(
        root,
        system="Windows",
        registry=registry,
        windows_features=frozenset({19, 43, 66, 67}),
        memory=(32 * GB, 20 * GB),
        physical_cores=12,
    )


def x86_server(root: Path) -> Sources:
    """Four cores, two threads each, with AMX."""
    files = cores({cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
    files["proc/cpuinfo"] = f"model name\t: Intel(R) Xeon(R) 6\nflags\t\t: {X86_FLAGS}\n"
    return machine(root, files=files)


ALL: dict[str, Callable[[Path], Sources]] = {
    "qcs6490": qcs6490,
    "x-elite-windows": x_elite_windows,
    "x86-server": x86_server,
}
