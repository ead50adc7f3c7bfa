"""A table of models, machines and wishes: each gives a plan, or a refusal with its reasons."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import GenieXError, NoRuntimeError, UsageError
from geniex_catalogue.gguf import read_header
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import dispatcher, memory
from geniex_runtimes.contract import Availability, HardwareProfile, Plan, Wish
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

SNAPDRAGON = machine(HTP0, ADRENO, chipset="qualcomm-snapdragon-x-elite")
TWO_SESSIONS = machine(HTP0, HTP1, ADRENO, chipset="qualcomm-snapdragon-x-elite")
RB3 = machine(HTP0, ADRENO, total=6 * GB, free=5 * GB, chipset="qualcomm-qcs6490")
PLAIN = machine()
GAMER = machine(CUDA0)
TWO_CARDS = machine(CUDA0, CUDA1, VULKAN0)
SMALL = machine(total=4 * GB, free=3 * GB)


def _plan(given_model: ResolvedModel, hardware: HardwareProfile, wish: Wish | None = None) -> Plan:
    return dispatcher.plan(given_model, hardware, HERE, wish or Wish())


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
    found = _plan(the_model, hardware, wish)
    assert (found.runtime, found.compute, found.devices) == ("llama_cpp", unit, devices)
    assert found.reasons
    assert found.gpu_layers == (0 if unit == "cpu" else wish.gpu_layers)


@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_what_gives_vectors_is_planned_for_them(architecture: str) -> None:
    found = _plan(model(architecture=architecture), PLAIN, Wish(embedding=True))
    assert found.compute == "cpu"


@pytest.mark.parametrize(
    ("the_model", "hardware", "wish", "says"),
    [
        pytest.param(model(), PLAIN, Wish(compute="npu"), ["no NPU device"], id="no-npu"),
        pytest.param(
            model(),
            machine(chipset="qualcomm-snapdragon-x-elite"),
            Wish(compute="npu"),
            ["no NPU device", "qualcomm-snapdragon-x-elite has one", "build with Hexagon"],
            id="npu-without-a-build-for-it",
        ),
        pytest.param(model(), PLAIN, Wish(compute="gpu"), ["no GPU device"], id="no-gpu"),
        pytest.param(model(), PLAIN, Wish(compute="hybrid"), ["besides the CPU"], id="no-hybrid"),
        pytest.param(
            model(9 * GB),
            GAMER,
            Wish(compute="gpu"),
            ["8.4 GiB", "7.5 GiB", "`--compute gpu --ngl"],
            id="too-big-for-the-card",
        ),
        pytest.param(model(9 * GB), SMALL, Wish(), ["8.4 GiB", "3.7 GiB"], id="too-big-for-all"),
        pytest.param(
            model(),
            SMALL,
            Wish(context_length=32768),
            ["5.0 GiB", "3.7 GiB", "--nctx"],
            id="context",
        ),
        pytest.param(
            model(format="qairt", bare=True),
            SNAPDRAGON,
            Wish(),
            ["not part of this version yet"],
            id="bundle",
        ),
        pytest.param(
            model(format="qairt", bare=True),
            SNAPDRAGON,
            Wish(runtime="llama_cpp"),
            ["llama_cpp: it runs gguf models, and this one is qairt"],
            id="bundle-on-llama-cpp",
        ),
        pytest.param(
            model(),
            SNAPDRAGON,
            Wish(runtime="qairt"),
            ["qairt: it runs qairt models, and this one is gguf"],
            id="gguf-on-qairt",
        ),
        pytest.param(
            model(architecture="gemma4-assistant"), PLAIN, Wish(), ["--draft-model"], id="draft"
        ),
        pytest.param(model(architecture="clip"), PLAIN, Wish(), ["projector"], id="projector"),
        pytest.param(model(architecture="bert"), PLAIN, Wish(), ["vectors"], id="embedding"),
        pytest.param(
            model(architecture="clip"), PLAIN, Wish(embedding=True), ["projector"], id="no-vectors"
        ),
    ],
)
def test_refusal(
    the_model: ResolvedModel, hardware: HardwareProfile, wish: Wish, says: list[str]
) -> None:
    with pytest.raises(NoRuntimeError) as caught:
        _plan(the_model, hardware, wish)
    assert caught.value.refusals
    for text in says:
        assert text in caught.value.message


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        pytest.param(
            Wish(compute="tpu"),
            "unknown compute `tpu`; units: auto, cpu, gpu, npu, hybrid; devices here: HTP0, GPUOp",
            id="no-such-unit",
        ),
        pytest.param(Wish(compute="htp0"), "unknown compute `htp0`", id="device-in-another-case"),
        pytest.param(Wish(compute="HTP7"), "unknown compute `HTP7`", id="no-such-device"),
        pytest.param(Wish(compute="HTP0,"), "unknown compute ``", id="nothing-after-the-comma"),
        pytest.param(Wish(compute="HTP0,cpu"), "unknown compute `cpu`", id="a-unit-in-a-list"),
        pytest.param(Wish(compute="CPU,HTP0"), "unknown compute `CPU`", id="the-cpu-in-a-list"),
        pytest.param(Wish(runtime="vllm"), "known: llama_cpp, qairt", id="no-such-runtime"),
        pytest.param(Wish(context_length=0), "a context of 0 tokens", id="no-context"),
        pytest.param(Wish(context_length=-4), "a context of -4 tokens", id="less-than-nothing"),
    ],
)
def test_wrong_use(wish: Wish, says: str) -> None:
    with pytest.raises(UsageError, match=r".") as caught:
        _plan(model(), SNAPDRAGON, wish)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("the_model", "hardware", "wish", "notes"),
    [
        pytest.param(model(), SNAPDRAGON, Wish(), [], id="nothing-to-say"),
        pytest.param(model(), PLAIN, Wish(), [], id="no-other-unit-was-there"),
        pytest.param(
            model(GB),
            RB3,
            Wish(),
            ["not on the npu and gpu: the CPU of this device is faster; using the cpu"],
            id="rb3",
        ),
        pytest.param(
            model(precision="IQ2_XXS"),
            SNAPDRAGON,
            Wish(),
            ["not on the npu: it has no kernels for IQ2_XXS"],
            id="precision",
        ),
        pytest.param(
            model(precision="IQ2_XXS"),
            SNAPDRAGON,
            Wish(compute="npu"),
            ["the NPU has no kernels for IQ2_XXS"],
            id="precision-asked",
        ),
        pytest.param(
            model(6 * GB),
            machine(HTP0),
            Wish(),
            ["GGML_HEXAGON_DEVICES=2 opens enough sessions; using the cpu"],
            id="sessions",
        ),
        pytest.param(
            model(9 * GB), GAMER, Wish(), ["`--compute gpu --ngl 17` puts 17 of 24"], id="card"
        ),
        pytest.param(model(15 * GB), PLAIN, Wish(), ["this may be very slow"], id="tight"),
        pytest.param(
            model(context=2048), PLAIN, Wish(context_length=4096), ["trained for 2048"], id="long"
        ),
        pytest.param(
            model(), PLAIN, Wish(gpu_layers=10), ["`--ngl 10` does nothing"], id="layers-nowhere"
        ),
        pytest.param(model(), PLAIN, Wish(gpu_layers=0), [], id="no-layers"),
        pytest.param(model(), GAMER, Wish(gpu_layers=10), [], id="layers-on-the-gpu"),
    ],
)
def test_notes(
    the_model: ResolvedModel, hardware: HardwareProfile, wish: Wish, notes: list[str]
) -> None:
    found = _plan(the_model, hardware, wish)
    assert len(found.notes) == len(notes), found.notes
    for text, note in zip(notes, found.notes, strict=True):
        assert text in note


def test_a_context_that_would_fit_is_the_hint() -> None:
    for wish in (Wish(context_length=10**8), Wish(context_length=10**8, compute="cpu")):
        with pytest.raises(NoRuntimeError) as caught:
            _plan(model(), PLAIN, wish)
        assert re.fullmatch(r"`--nctx \d+` would fit on the cpu", str(caught.value.hint))


def test_a_draft_takes_memory_too() -> None:
    alone = _plan(model(GB), PLAIN)
    small = dispatcher.with_draft(alone, model(GB), model(GB // 2), Wish())
    draft = memory.need(model(GB // 2), alone.context_length)
    assert small.needed_memory == alone.needed_memory + draft.total and small.notes == ()
    assert small.context_length == alone.context_length
    large = dispatcher.with_draft(alone, model(GB), model(64 * GB), Wish())
    assert len(large.notes) == 1 and "with the draft" in large.notes[0]


def test_a_context_is_shortened_for_a_draft_unless_it_was_asked_for() -> None:
    target, draft = model(GB), model(GB // 2)
    alone = _plan(target, PLAIN)
    both = memory.need(target, 4096).total + memory.need(draft, 4096).total
    tight = replace(alone, available_memory=both)
    shorter = dispatcher.with_draft(tight, target, draft, Wish())
    assert (shorter.context_length, shorter.needed_memory) == (4096, both)
    assert "4096" in shorter.reasons[-1] and shorter.notes == ()
    kept = dispatcher.with_draft(tight, target, draft, Wish(context_length=8192))
    assert kept.context_length == alone.context_length == 8192 and len(kept.notes) == 1


def test_every_better_unit_is_refused_by_name() -> None:
    found = _plan(model(), PLAIN)
    assert [refusal.split(":")[0] for refusal in found.refusals] == ["npu", "gpu"]


def test_a_missing_package_is_the_reason() -> None:
    gone = {"llama_cpp": Availability(False, reason="no package", formats=frozenset({"gguf"}))}
    with pytest.raises(NoRuntimeError, match="llama_cpp: no package"):
        dispatcher.plan(model(), PLAIN, gone, Wish())
    with pytest.raises(NoRuntimeError, match="no runtime runs gguf"):
        dispatcher.plan(model(), PLAIN, {}, Wish())


def test_another_runtime_of_the_same_format_steps_in() -> None:
    other = {**HERE, "theirs": Availability(True, formats=frozenset({"gguf"}))}
    npu = replace(HTP0, name="NPU0", runtime="theirs")
    found = dispatcher.plan(model(), machine(npu), other, Wish())
    assert (found.runtime, found.devices) == ("theirs", ("NPU0",))
    mixed = Wish(compute="NPU0,CUDA0")
    with pytest.raises(UsageError, match="different runtimes"):
        dispatcher.plan(model(), machine(npu, CUDA0), other, mixed)


def test_the_context_is_the_one_asked_for() -> None:
    assert _plan(model(), PLAIN, Wish(context_length=1234)).context_length == 1234


def test_the_context_shrinks_to_the_free_memory() -> None:
    found = _plan(model(), machine(total=16 * GB, free=2_700_000_000))
    assert memory.LEAST_CONTEXT <= found.context_length < memory.DEFAULT_CONTEXT
    assert found.needed_memory <= found.available_memory
    assert "what fits the free memory" in found.reasons[-1]


def test_a_real_header(tiny_chat: Path) -> None:
    known = read_header(tiny_chat)
    size = tiny_chat.stat().st_size
    tiny = ResolvedModel("tiny", None, "gguf", tiny_chat, (tiny_chat,), "Q8_0", size, known)
    found = _plan(tiny, PLAIN)
    assert found.context_length <= (known.context_length or 0)
    assert found.needed_memory < GB


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
        found = _plan(the_model, hardware, wish)
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
    assert found == _plan(the_model, hardware, wish)
