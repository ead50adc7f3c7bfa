"""Notes: what a plan says besides."""

import pytest

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    HardwareProfile,
)
from geniex_runtimes.planning import (
    Wish,
)
from tests.geniex_runtimes.dispatcher.machines import GAMER, PLAIN, RB3, SNAPDRAGON, plan
from tests.geniex_runtimes.models import GB, HTP0, machine, model


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
    found = plan(the_model, hardware, wish)
    assert len(found.notes) == len(notes), found.notes
    for text, note in zip(notes, found.notes, strict=True):
        assert text in note
