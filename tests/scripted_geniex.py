"""`python -m tests.scripted_geniex SCENARIO ARGS...`: geniex with a scripted runtime.

For tests that need a process and a terminal of their own.
"""

import sys
import time
from types import ModuleType
from typing import Any

from geniex.cli.app import main
from geniex_catalogue.errors import LoadError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import hardware, registry
from geniex_runtimes.contract import Device, HardwareProfile
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script
from geniex_runtimes.options import LoadOptions

MACHINE = HardwareProfile(
    system="Linux",
    machine="x86_64",
    cpu="Scripted CPU",
    cpu_features=frozenset(),
    cores=1,
    logical_cores=1,
    memory_total=16 << 30,
    memory_free=8 << 30,
    devices=(Device("CPU", "Scripted CPU", "cpu", "llama_cpp"),),
)
ENDLESS = Script(("word ",) * 1000, delay=0.05)


class DeafRuntime(FakeRuntime):
    """A load that nothing stops, as deep in native code."""

    def load(self, *args: Any, **kwargs: Any) -> FakeModel:
        time.sleep(60)
        return super().load(*args, **kwargs)


class GatedRuntime(FakeRuntime):
    """Loads of `local/gated` wait for the file `go` in the data folder; other models never end."""

    def load(self, model: ResolvedModel, options: LoadOptions, **how: Any) -> FakeModel:
        gated = model.name.startswith("local/gated")
        while gated and options.data_dir is not None and not (options.data_dir / "go").exists():
            if not how["progress"](0.0):
                raise LoadError("given up")
            time.sleep(0.02)
        self.scripts = (Script(),) if gated else (ENDLESS,)
        return super().load(model, options, **how)


SCENARIOS: dict[str, FakeRuntime] = {
    "plain": FakeRuntime(name="llama_cpp"),
    "slow-load": FakeRuntime(name="llama_cpp", load_delay=60.0),
    "deaf-load": DeafRuntime(name="llama_cpp"),
    "slow-prefill": FakeRuntime(Script(prefill_delay=60.0), name="llama_cpp"),
    "endless": FakeRuntime(ENDLESS, name="llama_cpp"),
    "gated": GatedRuntime(name="llama_cpp"),
    "endless-then-plain": FakeRuntime(ENDLESS, Script(), name="llama_cpp"),
}


def install(runtime: FakeRuntime) -> None:
    """Put the runtime in the place of llama_cpp."""
    module = ModuleType("scripted_runtime")
    module.__dict__["make"] = lambda: runtime
    sys.modules["scripted_runtime"] = module
    registry.BUILT_IN = {"llama_cpp": "scripted_runtime:make"}
    hardware.__dict__["probe"] = lambda data_dir: MACHINE


if __name__ == "__main__":
    install(SCENARIOS[sys.argv.pop(1)])
    main()
