"""Plans for compiled bundles: what is fixed in them, what is ignored, what is refused."""

from dataclasses import replace

import pytest

from geniex_catalogue.errors import UsageError
from geniex_runtimes import dispatcher
from geniex_runtimes.contract import Availability, Device, HardwareProfile
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.options import NPU, SIMULATOR
from geniex_runtimes.planning import Compiled, Plan, Wish
from tests.geniex_runtimes.models import ADRENO, GB, HERE, HTP0, machine, model

BUNDLE = model(format="qairt", bare=True)
FACTS = Compiled(context_length=512, memory=GB, htp_arch=73)
INSTALLED = {**HERE, "qairt": Availability(True, "2.51.0", formats=frozenset({"qairt"}))}
SNAPDRAGON = machine(
    HTP0, ADRENO, Device(NPU, "Hexagon v73", "npu", "qairt"), chipset="qualcomm-snapdragon-x-elite"
)
SIMULATED = machine(Device(SIMULATOR, "a simulator", "npu", "qairt"))
ONLY_NPU = "qairt plugin only supports NPU inference; ignoring device='{}' and running on NPU"


def plan(wish: Wish, hardware: HardwareProfile = SNAPDRAGON, facts: Compiled = FACTS) -> Plan:
    return dispatcher.plan(BUNDLE, hardware, INSTALLED, wish, facts)


@pytest.mark.parametrize("hardware", [SNAPDRAGON, SIMULATED], ids=["device", "simulator"])
def test_a_bundle_runs_on_the_npu_as_it_was_compiled(hardware: HardwareProfile) -> None:
    found = plan(Wish(), hardware)
    assert (found.runtime, found.compute, found.slots) == ("qairt", "npu", 1)
    assert found.devices == ((NPU,) if hardware is SNAPDRAGON else (SIMULATOR,))
    assert (found.context_length, found.needed_memory) == (512, GB)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        pytest.param(Wish(compute="npu"), (), id="npu"),
        pytest.param(Wish(compute="auto"), (), id="auto"),
        pytest.param(Wish(compute=NPU), (), id="its-device"),
        pytest.param(Wish(runtime="qairt"), (), id="runtime"),
        pytest.param(Wish(require="npu"), (), id="required"),
        pytest.param(Wish(context_length=512), (), id="the-same-context"),
        pytest.param(Wish(compute="cpu"), (ONLY_NPU.format("cpu"),), id="cpu"),
        pytest.param(Wish(compute="gpu"), (ONLY_NPU.format("gpu"),), id="gpu"),
        pytest.param(Wish(compute="hybrid"), (ONLY_NPU.format("hybrid"),), id="hybrid"),
        pytest.param(Wish(compute="GPUOpenCL"), (ONLY_NPU.format("GPUOpenCL"),), id="device"),
        pytest.param(Wish(compute="HTP0"), (ONLY_NPU.format("HTP0"),), id="npu-of-llama_cpp"),
        pytest.param(
            Wish(compute="cpu", require="npu"), (ONLY_NPU.format("cpu"),), id="cpu-npu-required"
        ),
        pytest.param(
            Wish(context_length=4096, gpu_layers=0),
            (
                "`--nctx 4096` is ignored: the context of this bundle is fixed at 512 tokens",
                "`--ngl 0` is ignored: all layers of a bundle are on the NPU",
            ),
            id="context-and-layers",
        ),
    ],
)
def test_what_cannot_be_is_ignored_and_said_once(wish: Wish, says: tuple[str, ...]) -> None:
    found = plan(wish)
    assert found.notes == says
    assert (found.devices, found.context_length, found.gpu_layers) == ((NPU,), 512, -1)


@pytest.mark.parametrize(
    ("hardware", "wish", "says", "hint"),
    [
        pytest.param(
            machine(chipset="qualcomm-qcs6490"),
            Wish(),
            "needs the Hexagon NPU of a Snapdragon (HTP v73), or Qualcomm's simulator of it on "
            "x86-64; here is Linux on aarch64, qualcomm-qcs6490, and qairt reports neither",
            "geniex devices",
            id="no-npu",
        ),
        pytest.param(machine(), Wish(), "no known Snapdragon", "geniex devices", id="elsewhere"),
        pytest.param(
            SIMULATED,
            Wish(require="npu"),
            "the HTP simulator is not an NPU",
            "--require npu",
            id="sim",
        ),
        pytest.param(
            SNAPDRAGON, Wish(require="gpu"), "runs on the NPU alone", "--require gpu", id="gpu"
        ),
        pytest.param(
            SNAPDRAGON, Wish(require="cpu"), "runs on the NPU alone", "--require cpu", id="cpu"
        ),
        pytest.param(
            SNAPDRAGON,
            Wish(runtime="llama_cpp"),
            "llama_cpp: it runs gguf models, and this one is qairt",
            "--runtime llama_cpp",
            id="llama_cpp",
        ),
        pytest.param(SNAPDRAGON, Wish(embedding=True), "gives no vectors", None, id="embedding"),
        pytest.param(
            replace(SNAPDRAGON, memory_total=GB // 2), Wish(), "the memory is", None, id="memory"
        ),
    ],
)
def test_refusals(hardware: HardwareProfile, wish: Wish, says: str, hint: str | None) -> None:
    with pytest.raises(NoRuntimeError) as caught:
        plan(wish, hardware)
    assert says in caught.value.message
    assert caught.value.hint is None if hint is None else hint in str(caught.value.hint)


def test_a_compute_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="unknown compute `HTP7`"):
        plan(Wish(compute="HTP7"))


def test_little_free_memory_is_told() -> None:
    [note] = plan(Wish(), replace(SIMULATED, memory_free=GB // 2)).notes
    assert "may be very slow" in note


def test_a_runtime_that_is_not_here_says_what_to_install() -> None:
    missing = Availability(
        False, reason="not installed", formats=frozenset({"qairt"}), hint="install `x[qairt]`"
    )
    with pytest.raises(NoRuntimeError, match="qairt: not installed") as caught:
        dispatcher.plan(BUNDLE, SNAPDRAGON, {**HERE, "qairt": missing}, Wish(), FACTS)
    assert caught.value.hint == "install `x[qairt]`"
