"""How many threads described machines get: fast physical cores that the process may use."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_runtimes.hardware import cgroup
from geniex_runtimes.hardware.cpu import Watch, probe
from geniex_runtimes.hardware.cpu_sets import CpuSet, read_cpu_sets
from tests.geniex_runtimes.hardware.machines import machine


@dataclass(frozen=True)
class Described:
    """A machine: for each logical CPU its core, and its capacity or kind where there are several.

    `fast` are Intel's P-cores as Linux lists them.
    """

    cores: Sequence[int]
    kinds: Sequence[int] = ()
    fast: str = ""
    processor: str = "aarch64"
    expected: tuple[int, int, int] = field(default=(0, 0, 0), compare=False)

    def linux(self) -> dict[str, str]:
        """The files that tell it."""
        cpu = "sys/devices/system/cpu"
        files = {f"{cpu}/online": f"0-{len(self.cores) - 1}"}
        for index, core in enumerate(self.cores):
            siblings = [str(i) for i, other in enumerate(self.cores) if other == core]
            files[f"{cpu}/cpu{index}/topology/thread_siblings_list"] = ",".join(siblings)
            if self.kinds:
                files[f"{cpu}/cpu{index}/cpu_capacity"] = str(self.kinds[index])
        if self.fast:
            files["sys/devices/cpu_core/cpus"] = self.fast
        return files

    def windows(self) -> bytes:
        """The buffer that tells it."""
        kinds = self.kinds or [0] * len(self.cores)
        return b"".join(
            struct.pack(
                "<IIIHBBBBBBIQ", 32, 0, 256 + i, i // 64, i % 64, core % 64, 0, 0, kind, *[0] * 3
            )
            for i, (core, kind) in enumerate(zip(self.cores, kinds, strict=True))
        )


ELITE = Described(range(12))  # Snapdragon X Elite: three clusters of four, all alike
ELITE_LINUX = Described(range(12), [1024] * 12)
GEN3 = Described(range(8), [1024, *[860] * 3, *[820] * 2, *[325] * 2])  # 8 Gen 3: 1 + 5 + 2
GEN3_WINDOWS = Described(range(8), [2, *[1] * 5, *[0] * 2])
RB3 = Described(range(8), [*[380] * 4, *[1024] * 4])  # four slow ones first
# Core i7 of 8 P-cores with two threads each and 8 E-cores
HYBRID = [*(core for core in range(8) for _ in range(2)), *range(8, 16)]
INTEL = Described(HYBRID, fast="0-15", processor="x86_64")
INTEL_WINDOWS = Described(HYBRID, [*[1] * 16, *[0] * 8], processor="AMD64")
# with two more slow cores on the SoC tile, a third kind
ULTRA_WINDOWS = Described([*HYBRID, 16, 17], [*[2] * 16, *[1] * 8, *[0] * 2], processor="AMD64")
SMT = Described([0, 0, 1, 1, 2, 2, 3, 3], processor="x86_64")
SMT_OFF = Described(range(4), processor="x86_64")
EPYC = Described([*range(64), *range(64)], processor="AMD64")


@pytest.mark.parametrize(
    ("described", "affinity", "cpus", "expected"),
    [
        pytest.param(ELITE_LINUX, None, None, (12, 12, 12), id="x-elite"),
        pytest.param(ELITE_LINUX, {0, 1, 2, 3}, None, (4, 4, 4), id="x-elite-one-cluster"),
        pytest.param(GEN3, None, None, (8, 8, 6), id="8-gen-3"),
        pytest.param(GEN3, {6, 7}, None, (2, 2, 2), id="8-gen-3-slow-cores-alone"),
        pytest.param(GEN3, {0, 6, 7}, None, (3, 3, 1), id="8-gen-3-one-fast-two-slow"),
        pytest.param(RB3, None, None, (8, 8, 4), id="rb3"),
        pytest.param(INTEL, None, None, (24, 16, 8), id="intel-p-and-e"),
        pytest.param(INTEL, set(range(16, 24)), None, (8, 8, 8), id="intel-e-alone"),
        pytest.param(INTEL, {0, 1, 16}, None, (3, 2, 1), id="intel-one-p-one-e"),
        pytest.param(INTEL, None, "600000 100000", (6, 6, 6), id="intel-six-cpus-of-time"),
        pytest.param(SMT, None, None, (8, 4, 4), id="smt"),
        pytest.param(SMT_OFF, None, None, (4, 4, 4), id="smt-off"),
        pytest.param(SMT, None, "150000 100000", (1, 1, 1), id="smt-one-and-a-half-cpus"),
        pytest.param(SMT, {1, 3}, None, (2, 2, 2), id="smt-second-threads-alone"),
        pytest.param(SMT, {0, 1, 2}, "max 100000", (3, 2, 2), id="smt-affinity-no-quota"),
    ],
)
def test_linux(
    tmp_path: Path,
    described: Described,
    affinity: set[int] | None,
    cpus: str | None,
    expected: tuple[int, int, int],
) -> None:
    files = described.linux()
    if cpus is not None:
        files |= {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": cpus}
    here = machine(tmp_path, files=files, affinity=affinity, processor=described.processor)
    cpu, _ = probe(here, cgroup.read(here))
    assert (cpu.logical_cores, cpu.cores, cpu.performance_cores) == expected
    assert Watch(here)._most == expected[2]


@pytest.mark.parametrize(
    ("described", "affinity", "expected"),
    [
        pytest.param(ELITE, None, (12, 12, 12), id="x-elite"),
        pytest.param(GEN3_WINDOWS, None, (8, 8, 6), id="1-5-2"),
        pytest.param(GEN3_WINDOWS, {6, 7}, (2, 2, 2), id="slow-cores-alone"),
        pytest.param(INTEL_WINDOWS, None, (24, 16, 8), id="intel-p-and-e"),
        pytest.param(INTEL_WINDOWS, {0, 1, 2, 16}, (4, 3, 2), id="intel-affinity"),
        pytest.param(ULTRA_WINDOWS, None, (26, 18, 8), id="intel-three-kinds"),
        pytest.param(SMT, None, (8, 4, 4), id="smt"),
        pytest.param(EPYC, None, (128, 128, 128), id="two-groups"),
    ],
)
def test_windows(
    tmp_path: Path,
    described: Described,
    affinity: set[int] | None,
    expected: tuple[int, int, int],
) -> None:
    here = machine(
        tmp_path,
        system="Windows",
        processor=described.processor,
        cpu_sets=described.windows(),
        affinity=affinity,
    )
    cpu, _ = probe(here, cgroup.read(here))
    assert (cpu.logical_cores, cpu.cores, cpu.performance_cores) == expected


def test_longer_records_and_other_types_are_passed_over() -> None:
    one = INTEL_WINDOWS.windows()[:32]
    longer = struct.pack("<I", 40) + one[4:] + bytes(8)
    other = struct.pack("<II", 32, 7) + one[8:]
    first = CpuSet(0, 0, 1)
    assert read_cpu_sets(longer + other + one + one[:20]) == (first, first)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_to_their_end(data: bytes) -> None:
    assert len(read_cpu_sets(data)) <= len(data) // 19
