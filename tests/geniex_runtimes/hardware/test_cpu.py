"""Cores and features are those this process may use, on recorded machines and on this one."""

import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from geniex_runtimes.hardware import cgroup, cpu
from geniex_runtimes.hardware.cgroup import Limits
from tests.geniex_runtimes.hardware import machines
from tests.geniex_runtimes.hardware.machines import machine


def test_x86_with_hyper_threads(tmp_path: Path) -> None:
    found, result = cpu.probe(machines.x86_server(tmp_path), Limits())
    assert found.name == "Intel(R) Xeon(R) 6"
    assert (found.logical_cores, found.cores, found.performance_cores) == (8, 4, 4)
    assert {"avx2", "amx_int8"} <= found.features
    assert result.found is not None
    assert "4 cores (8 logical)" in result.found


def test_arm_with_small_cores(tmp_path: Path) -> None:
    found, result = cpu.probe(machines.qcs6490(tmp_path), Limits())
    assert found.name == "Cortex-A55 + Cortex-A78"
    assert (found.logical_cores, found.cores, found.performance_cores) == (8, 8, 4)
    assert {"asimddp", "i8mm"} <= found.features
    assert "4 of them fast" in (result.found or "")


def test_windows_asks_the_system(tmp_path: Path) -> None:
    found, _ = cpu.probe(machines.x_elite_windows(tmp_path), Limits())
    assert found.name.startswith("Snapdragon(R) X Elite")
    assert found.features == {"asimd", "asimddp", "asimdhp", "i8mm"}
    assert found.cores == min(12, found.logical_cores)


def test_intel_hybrid(tmp_path: Path) -> None:
    # two big cores with two threads each, four small ones
    siblings = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", 4: "4", 5: "5", 6: "6", 7: "7"}
    files = machines.cores(siblings) | {"sys/devices/cpu_core/cpus": "0-3\n"}
    found, _ = cpu.probe(machine(tmp_path, files=files), Limits())
    assert (found.logical_cores, found.cores, found.performance_cores) == (8, 6, 2)


@pytest.mark.parametrize(
    ("affinity", "limit", "expected"),
    [
        pytest.param(None, None, (8, 4, 4), id="whole-machine"),
        pytest.param({0, 1}, None, (2, 2, 2), id="two-cores"),
        pytest.param({0, 4}, None, (2, 1, 1), id="two-threads-of-one-core"),
        pytest.param(None, 2.5, (2, 2, 2), id="a-share-is-rounded-down"),
        pytest.param(None, 0.5, (1, 1, 1), id="never-less-than-one"),
        pytest.param(None, 64.0, (8, 4, 4), id="a-share-above-the-machine"),
    ],
)
def test_affinity_and_share(
    tmp_path: Path,
    affinity: set[int] | None,
    limit: float | None,
    expected: tuple[int, int, int],
) -> None:
    files = machines.cores({n: f"{n % 4},{n % 4 + 4}" for n in range(8)})
    source = machine(tmp_path, files=files, affinity=affinity)
    found, _ = cpu.probe(source, Limits(cpus=limit))
    assert (found.logical_cores, found.cores, found.performance_cores) == expected


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    found, result = cpu.probe(machine(tmp_path, system="Plan9"), Limits())
    assert found.name == "aarch64"
    assert found.cores >= 1
    assert result.reason == "instruction sets are not known on Plan9"


Times = namedtuple("Times", "user system idle iowait guest")


@pytest.mark.parametrize(
    ("busy", "own", "quota", "expected"),
    [
        pytest.param([0.0] * 4, 0.0, None, 4, id="idle"),
        pytest.param([1.0, 0.0, 0.0, 0.0], 0.0, None, 3, id="one-core-busy"),
        pytest.param([1.0, 1.0, 0.1, 0.0], 0.0, None, 2, id="two-cores-busy"),
        pytest.param([0.2, 0.1, 0.1, 0.0], 0.0, None, 4, id="a-little-of-each"),
        pytest.param([1.0, 0.0, 0.0, 0.0], 1.0, None, 4, id="we-ourselves-do-not-count"),
        pytest.param([1.0] * 4, 0.0, None, 1, id="all-busy-leaves-one"),
        pytest.param([1.0, 0.0, 0.0, 0.0], 0.0, "200000 100000", 2, id="share-is-still-free"),
    ],
)
def test_free_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    busy: list[float],
    own: float,
    quota: str | None,
    expected: int,
) -> None:
    clock = iter([10.0, 11.0])
    start = [Times(5.0, 1.0, 100.0, 0.0, 0.0) for _ in busy]
    end = [Times(5.0 + b, 1.0, 100.0 + (1 - b), 0.0, 0.0) for b in busy]
    samples = iter([start, end])
    mine = iter([(2.0, 0.0), (2.0 + own, 0.0)])
    Own = namedtuple("Own", "user system")
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(samples))
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda self: Own(*next(mine)))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    files = machines.cores({n: str(n) for n in range(4)})
    if quota:
        files |= {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota}\n"}
    assert cpu.free_cores(machine(tmp_path, files=files)) == expected


def test_free_cores_of_this_machine_sees_a_busy_process() -> None:
    started = time.monotonic()
    free = cpu.free_cores()
    assert time.monotonic() - started < 3
    assert 1 <= free <= (psutil.cpu_count(logical=False) or 1)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:
            time.sleep(0.2)
            assert cpu.free_cores(sample=0.2) <= max(1, free)
        finally:
            spinning.kill()


CGROUP_V2 = {
    "proc/self/cgroup": "0::/pod/app\n",
    "sys/fs/cgroup/pod/cpu.max": "300000 100000\n",
    "sys/fs/cgroup/pod/app/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pod/app/memory.max": "4000000000\n",
    "sys/fs/cgroup/pod/app/memory.current": "1500000000\n",
    "sys/fs/cgroup/pod/app/memory.stat": "anon 900000000\ninactive_file 500000000\n",
    "sys/fs/cgroup/pod/memory.max": "max\n",
}
CGROUP_V1 = {
    "proc/self/cgroup": "4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n1:name=systemd:/\n0::/\n",
    "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "2000000000\n",
    "sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes": "700000000\n",
    "sys/fs/cgroup/memory/docker/1/memory.stat": "total_inactive_file 100000000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(CGROUP_V2, Limits(3.0, 4 * 10**9, 10**9), id="v2-the-parent-counts"),
        pytest.param(CGROUP_V1, Limits(1.5, 2 * 10**9, 6 * 10**8), id="v1"),
        pytest.param({"proc/self/cgroup": "0::/\n"}, Limits(), id="no-limits"),
        pytest.param({}, Limits(), id="no-cgroups"),
        pytest.param({"proc/self/cgroup": "garbage\n\n:::\n"}, Limits(), id="garbage"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"},
            Limits(),
            id="a-period-of-nothing",
        ),
    ],
)
def test_container_limits(tmp_path: Path, files: dict[str, str], expected: Limits) -> None:
    assert cgroup.read(machine(tmp_path, files=files)) == expected
