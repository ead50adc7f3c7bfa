"""What the tests of the faces share: a scripted runtime in the place of llama.cpp."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from geniex_runtimes import hardware, registry
from geniex_runtimes.contract import Device, HardwareProfile, ProbeResult
from geniex_runtimes.fake import FakeRuntime

if TYPE_CHECKING:
    from tests.geniex.judge import Judge

MACHINE = HardwareProfile(
    system="Linux",
    machine="x86_64",
    cpu="Scripted CPU",
    cpu_features=frozenset({"avx2"}),
    cores=4,
    logical_cores=8,
    memory_total=16 << 30,
    memory_free=8 << 30,
    devices=(Device("CPU", "Scripted CPU", "cpu", "llama_cpp"),),
    probes=(
        ProbeResult("cpu", "Scripted CPU"),
        ProbeResult("chipset", None, "this is no Snapdragon"),
    ),
)

Scripted = Callable[[FakeRuntime], FakeRuntime]


def install(runtime: FakeRuntime, patch: pytest.MonkeyPatch) -> FakeRuntime:
    """Put a scripted runtime in the place of llama_cpp, on a machine with a CPU alone."""

    def probe(data_dir: Path) -> HardwareProfile:
        return MACHINE

    module = ModuleType("scripted_runtime")
    module.__dict__["make"] = lambda: runtime
    patch.setitem(sys.modules, "scripted_runtime", module)
    patch.setattr(registry, "BUILT_IN", {"llama_cpp": "scripted_runtime:make"})
    patch.setattr(hardware, "probe", probe)
    return runtime


@pytest.fixture(scope="session")
def judge(tiny_chat: Path) -> "Iterator[Judge]":
    """llama.cpp's grammar engine on the built-in model's vocabulary."""
    # for those tests alone: llama.cpp takes a while to load
    from tests.geniex.judge import Judge

    engine = Judge(tiny_chat)
    yield engine
    engine.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Put a scripted runtime in the place of llama_cpp, on a machine with a CPU alone."""
    return lambda runtime: install(runtime, monkeypatch)
