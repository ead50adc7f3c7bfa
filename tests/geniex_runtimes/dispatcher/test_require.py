"""`--require`: a model runs on that unit, all of it, or not at all."""

import pytest

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import HardwareProfile
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.planning import Wish
from tests.geniex_runtimes.dispatcher.machines import GAMER, PLAIN, RB3, SNAPDRAGON, plan
from tests.geniex_runtimes.models import GB, model


@pytest.mark.parametrize(
    ("the_model", "hardware", "wish", "devices"),
    [
        pytest.param(model(), SNAPDRAGON, Wish(require="npu"), ("HTP0",), id="npu"),
        pytest.param(model(), SNAPDRAGON, Wish(require="gpu"), ("GPUOpenCL",), id="gpu"),
        pytest.param(model(), SNAPDRAGON, Wish(require="cpu"), (), id="cpu"),
        pytest.param(model(GB), RB3, Wish(require="npu"), ("HTP0",), id="where-the-cpu-is-faster"),
        pytest.param(
            model(), SNAPDRAGON, Wish(require="npu", compute="HTP0"), ("HTP0",), id="its-device"
        ),
        pytest.param(model(), GAMER, Wish(require="cpu", gpu_layers=0), (), id="no-layers"),
        pytest.param(model(), GAMER, Wish(require="gpu", gpu_layers=25), ("CUDA0",), id="all"),
    ],
)
def test_it_is_met(
    the_model: ResolvedModel, hardware: HardwareProfile, wish: Wish, devices: tuple[str, ...]
) -> None:
    found = plan(the_model, hardware, wish)
    assert (found.compute, found.devices) == (wish.require, devices)


@pytest.mark.parametrize(
    ("the_model", "hardware", "wish", "says"),
    [
        pytest.param(model(), PLAIN, Wish(require="npu"), "no NPU device", id="no-npu"),
        pytest.param(model(), PLAIN, Wish(require="gpu"), "no GPU device", id="no-gpu"),
        pytest.param(
            model(precision="IQ2_XXS"), SNAPDRAGON, Wish(require="npu"), "no kernels", id="kernels"
        ),
        pytest.param(
            model(), GAMER, Wish(require="gpu", gpu_layers=10), "a part of the model", id="layers"
        ),
        pytest.param(
            model(), GAMER, Wish(require="gpu", gpu_layers=0), "`--ngl 0` runs else", id="no-layers"
        ),
        pytest.param(
            model(),
            SNAPDRAGON,
            Wish(require="npu", compute="gpu"),
            "--compute gpu",
            id="other-unit",
        ),
        pytest.param(
            model(), SNAPDRAGON, Wish(require="npu", compute="hybrid"), "hybrid", id="hybrid"
        ),
    ],
)
def test_it_is_refused(
    the_model: ResolvedModel, hardware: HardwareProfile, wish: Wish, says: str
) -> None:
    with pytest.raises(NoRuntimeError) as caught:
        plan(the_model, hardware, wish)
    assert says in caught.value.message
    assert "--require" in str(caught.value.hint)
