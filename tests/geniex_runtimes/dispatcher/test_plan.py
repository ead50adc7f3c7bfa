"""Plans: a table of models, machines and wishes, each with the unit that is chosen."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import GenieXError, UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import dispatcher
from geniex_runtimes.contract import (
    Availability,
    HardwareProfile,
)
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.planning import (
    Wish,
)
from tests.geniex_runtimes.dispatcher.machines import (
    GAMER,
    PLAIN,
    RB3,
    SNAPDRAGON,
    TWO_CARDS,
    TWO_SESSIONS,
    plan,
)
from tests.geniex_runtimes.models import (
    ADRENO,
    CPU,
    CUDA0,
    CUDA1,
    GB,
    HERE,
    HTP0,
    HTP1,
    SILENT_GPU,
    VULKAN0,
    header,
    machine,
    model,
)


@pytest.mark.parametrize(
    ("the_model", "hardware", "wish", "unit", "devices"),
    [
        # left to choose: npu, gpu, cpu
        pytest.param(model(), SNAPDRAGON, Wish(), "npu", ("HTP0",), id="npu-first"),
        pytest.param(model(), machine(ADRENO), Wish(), "gpu", ("GPUOpenCL",), id="gpu-next"),
        pytest.param(model(), PLAIN, Wish(), "cpu", (), id="cpu-last"),
        pytest.param(model(), SNAPDRAGON, Wish(compute="auto"), "npu", ("HTP0",), id="auto"),
        pytest.param(model(), SNAPDRAGON, Wish(compute="  "), "npu", ("HTP0",), id="blank"),
        pytest.param(model(bare=True), GAMER, Wish(), "gpu", ("CUDA0",), id="no-header"),
        # the npu's own rules
        pytest.param(model(precision="Q8_0"), SNAPDRAGON, Wish(), "npu", ("HTP0",), id="q8-on-npu"),
        pytest.param(
            model(precision="Q4_K_M"), SNAPDRAGON, Wish(), "npu", ("HTP0",), id="q4_k_m-on-npu"
        ),
        pytest.param(
            model(precision="UD-Q4_K_XL"), SNAPDRAGON, Wish(), "npu", ("HTP0",), id="ud-on-npu"
        ),
        pytest.param(
            model(precision=None), SNAPDRAGON, Wish(), "npu", ("HTP0",), id="precision-unknown"
        ),
        pytest.param(
            model(precision="IQ2_XXS"), SNAPDRAGON, Wish(), "gpu", ("GPUOpenCL",), id="iq2-on-gpu"
        ),
        pytest.param(model(precision="BF16"), machine(HTP0), Wish(), "cpu", (), id="bf16-on-cpu"),
        pytest.param(model(GB), RB3, Wish(), "cpu", (), id="rb3-gen-2-by-chipset"),
        pytest.param(
            model(GB),
            replace(SNAPDRAGON, chipset="Dragonwing RB3 Gen 2 Vision Kit"),
            Wish(),
            "cpu",
            (),
            id="rb3-gen-2-by-name",
        ),
        # memory
        pytest.param(
            model(6 * GB), SNAPDRAGON, Wish(), "gpu", ("GPUOpenCL",), id="too-big-for-a-session"
        ),
        pytest.param(
            model(5 * GB), TWO_SESSIONS, Wish(), "npu", ("HTP0", "HTP1"), id="two-sessions"
        ),
        pytest.param(model(), TWO_SESSIONS, Wish(), "npu", ("HTP0",), id="one-session-is-enough"),
        pytest.param(model(9 * GB), GAMER, Wish(), "cpu", (), id="too-big-for-the-card"),
        pytest.param(model(9 * GB), TWO_CARDS, Wish(), "gpu", ("CUDA0", "CUDA1"), id="two-cards"),
        pytest.param(model(), TWO_CARDS, Wish(), "gpu", ("CUDA0",), id="one-card-is-enough"),
        pytest.param(
            model(9 * GB), machine(SILENT_GPU), Wish(), "gpu", ("SYCL0",), id="card-does-not-say"
        ),
        pytest.param(model(15 * GB), PLAIN, Wish(), "cpu", (), id="tight-but-possible"),
        pytest.param(
            model(50 * GB), machine(total=0, free=0), Wish(), "cpu", (), id="memory-unknown"
        ),
        # asked for
        pytest.param(model(), SNAPDRAGON, Wish(compute="cpu"), "cpu", (), id="cpu-asked"),
        pytest.param(
            model(), SNAPDRAGON, Wish(compute="GPU"), "gpu", ("GPUOpenCL",), id="any-case"
        ),
        pytest.param(model(GB), RB3, Wish(compute="npu"), "npu", ("HTP0",), id="npu-on-rb3"),
        pytest.param(
            model(precision="IQ2_XXS"), SNAPDRAGON, Wish(compute="npu"), "npu", ("HTP0",), id="iq2"
        ),
        pytest.param(
            model(6 * GB), SNAPDRAGON, Wish(compute="npu"), "npu", ("HTP0",), id="big-on-npu"
        ),
        pytest.param(
            model(),
            SNAPDRAGON,
            Wish(compute="hybrid"),
            "hybrid",
            ("HTP0", "GPUOpenCL"),
            id="hybrid",
        ),
        pytest.param(model(), GAMER, Wish(compute="hybrid"), "hybrid", ("CUDA0",), id="hybrid-gpu"),
        pytest.param(
            model(), TWO_SESSIONS, Wish(compute="HTP1"), "npu", ("HTP1",), id="one-device"
        ),
        pytest.param(
            model(),
            TWO_SESSIONS,
            Wish(compute=" HTP0 , HTP1 "),
            "npu",
            ("HTP0", "HTP1"),
            id="a-list",
        ),
        pytest.param(
            model(),
            SNAPDRAGON,
            Wish(compute="HTP0,GPUOpenCL"),
            "hybrid",
            ("HTP0", "GPUOpenCL"),
            id="a-mixed-list",
        ),
        pytest.param(
            model(), TWO_CARDS, Wish(compute="CUDA1,CUDA1"), "gpu", ("CUDA1",), id="named-twice"
        ),
        pytest.param(model(), GAMER, Wish(gpu_layers=0), "cpu", (), id="no-layers-is-the-cpu"),
        pytest.param(
            model(9 * GB), GAMER, Wish(gpu_layers=10), "gpu", ("CUDA0",), id="some-layers-fit"
        ),
        pytest.param(
            model(), GAMER, Wish(runtime="llama_cpp"), "gpu", ("CUDA0",), id="runtime-asked"
        ),
    ],
)
def test_plan(
    the_model: ResolvedModel,
    hardware: HardwareProfile,
    wish: Wish,
    unit: str,
    devices: tuple[str, ...],
) -> None:
    found = plan(the_model, hardware, wish)
    assert (found.runtime, found.compute, found.devices) == ("llama_cpp", unit, devices)
    assert found.reasons
    assert found.gpu_layers == (0 if unit == "cpu" else wish.gpu_layers)


@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_what_gives_vectors_is_planned_for_them(architecture: str) -> None:
    found = plan(model(architecture=architecture), PLAIN, Wish(embedding=True))
    assert found.compute == "cpu"


def test_another_runtime_of_the_same_format_steps_in() -> None:
    other = {**HERE, "theirs": Availability(True, formats=frozenset({"gguf"}))}
    npu = replace(HTP0, name="NPU0", runtime="theirs")
    found = dispatcher.plan(model(), machine(npu), other, Wish())
    assert (found.runtime, found.devices) == ("theirs", ("NPU0",))
    mixed = Wish(compute="NPU0,CUDA0")
    with pytest.raises(UsageError, match="different runtimes"):
        dispatcher.plan(model(), machine(npu, CUDA0), other, mixed)


_DEVICES = st.lists(
    st.sampled_from([HTP0, HTP1, ADRENO, CUDA0, CUDA1, VULKAN0, SILENT_GPU]), unique=True
)
_WORDS = st.sampled_from(
    [None, "", "auto", "cpu", "gpu", "npu", "hybrid", "HTP0", "HTP0,HTP1", "CUDA0,HTP0", "x", ","]
)


@given(
    devices=_DEVICES,
    size=st.integers(4, 200 * GB),
    total=st.integers(0, 300 * GB),
    part=st.floats(0, 1),
    word=_WORDS,
    layers=st.integers(-1, 40),
    context=st.none() | st.integers(1, 200_000),
    precision=st.sampled_from([None, "Q4_0", "IQ1_S", "BF16"]),
    chipset=st.sampled_from([None, "qualcomm-qcs6490", "qualcomm-qcs9075"]),
)
def test_any_case_is_a_plan_or_an_error_with_reasons(
    devices: list[object],
    size: int,
    total: int,
    part: float,
    word: str | None,
    layers: int,
    context: int | None,
    precision: str | None,
    chipset: str | None,
) -> None:
    hardware = machine(*devices, total=total, free=int(total * part), chipset=chipset)  # type: ignore[arg-type]
    wish = Wish(compute=word, gpu_layers=layers, context_length=context)
    the_model = replace(model(size, precision), header=header(size))
    try:
        found = plan(the_model, hardware, wish)
    except NoRuntimeError as exc:
        assert exc.refusals
        return
    except GenieXError as exc:
        assert word in ("x", ",", "HTP0", "HTP0,HTP1", "CUDA0,HTP0"), exc
        return
    names = {device.name for device in hardware.devices if device != CPU}
    assert set(found.devices) <= names
    assert (found.compute == "cpu") == (not found.devices)
    assert found.context_length == context or context is None
    assert found == plan(the_model, hardware, wish)
