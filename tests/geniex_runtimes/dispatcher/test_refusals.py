"""Refusals: each with its reasons, and wishes that mean nothing."""

import re

import pytest

from geniex_catalogue.errors import UsageError
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
from tests.geniex_runtimes.dispatcher.machines import GAMER, PLAIN, SMALL, SNAPDRAGON, plan
from tests.geniex_runtimes.models import GB, machine, model


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
        plan(the_model, hardware, wish)
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
        plan(model(), SNAPDRAGON, wish)
    assert says in caught.value.message


def test_a_context_that_would_fit_is_the_hint() -> None:
    for wish in (Wish(context_length=10**8), Wish(context_length=10**8, compute="cpu")):
        with pytest.raises(NoRuntimeError) as caught:
            plan(model(), PLAIN, wish)
        assert re.fullmatch(r"`--nctx \d+` would fit on the cpu", str(caught.value.hint))


def test_every_better_unit_is_refused_by_name() -> None:
    found = plan(model(), PLAIN)
    assert [refusal.split(":")[0] for refusal in found.refusals] == ["npu", "gpu"]


def test_a_missing_package_is_the_reason() -> None:
    gone = {"llama_cpp": Availability(False, reason="no package", formats=frozenset({"gguf"}))}
    with pytest.raises(NoRuntimeError, match="llama_cpp: no package"):
        dispatcher.plan(model(), PLAIN, gone, Wish())
    with pytest.raises(NoRuntimeError, match="no runtime runs gguf"):
        dispatcher.plan(model(), PLAIN, {}, Wish())
