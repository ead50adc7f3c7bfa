"""The whole profile: one value, and a probe that fails is a line with a reason."""

from pathlib import Path

import pytest

from geniex_runtimes import hardware, registry
from geniex_runtimes.contract import HardwareProfile, ProbeResult
from geniex_runtimes.hardware import chipset, cpu, profile
from geniex_runtimes.hardware.sources import Sources
from geniex_runtimes.llama_cpp import selftest
from tests.geniex_runtimes.hardware import machines
from tests.geniex_runtimes.hardware.machines import GB


@pytest.fixture(autouse=True)
def no_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """One scripted runtime instead of the real one, and no self-test."""
    monkeypatch.setattr(
        registry, "BUILT_IN", {"fake": "geniex_runtimes.fake:FakeRuntime"}, raising=True
    )
    monkeypatch.setattr(registry, "_entry_points", dict)
    monkeypatch.setattr(
        selftest,
        "probe",
        lambda data_dir, cpu: (True, ProbeResult("extra buffers", f"on for {cpu}")),
    )


def _probe(tmp_path: Path, source: Sources) -> HardwareProfile:
    return profile.probe(tmp_path / "data", source)


@pytest.mark.parametrize("name", machines.ALL)
def test_recorded_machines(tmp_path: Path, name: str) -> None:
    found = _probe(tmp_path, machines.ALL[name](tmp_path / "root"))
    assert [probe.probe for probe in found.probes] == [
        "cpu",
        "memory",
        "chipset",
        "runtime fake",
        "extra buffers",
    ]
    assert found.memory_total > found.memory_free > 0
    assert found.extra_buffers
    assert [device.name for device in found.devices] == ["CPU"]


def test_a_snapdragon_is_named(tmp_path: Path) -> None:
    found = _probe(tmp_path, machines.qcs6490(tmp_path / "root"))
    assert (found.chipset, found.htp_arch) == ("qualcomm-qcs6490", 68)
    assert found.performance_cores == 4


def test_a_container_limits_memory(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": str(4 * GB),
        "sys/fs/cgroup/memory.current": str(1 * GB),
    }
    found = _probe(tmp_path, machines.machine(tmp_path / "root", files=files))
    assert (found.memory_total, found.memory_free) == (4 * GB, 3 * GB)
    assert "limited by the container" in (found.probes[1].found or "")


@pytest.mark.parametrize("broken", [cpu, chipset], ids=lambda module: module.__name__)
def test_a_probe_that_fails_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: object
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("unexpected text")

    monkeypatch.setattr(broken, "probe", fail)
    found = _probe(tmp_path, machines.x86_server(tmp_path / "root"))
    failed = [probe for probe in found.probes if probe.reason == "ValueError: unexpected text"]
    assert len(failed) == 1
    assert found.cores >= 1


def test_this_machine(tmp_path: Path) -> None:
    found = hardware.probe(tmp_path)
    assert found.cores >= 1
    assert found.memory_total > 0
    assert found.cpu
