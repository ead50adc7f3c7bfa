"""Speed: whatever machine and text are like, speculation is never the slower way."""

import random

import pytest

from geniex_runtimes.llama_cpp.speculative.controller import Controller
from geniex_runtimes.llama_cpp.speculative.costs import Costs
from tests.geniex_runtimes.llama_cpp.speculative.controller.simulation import (
    MACHINES,
    STEPS,
    Machine,
    Text,
    always,
    expected,
    fixed_speed,
    flip,
    run,
)


def waves(step: int, position: int) -> float:
    return 0.9 if step // 200 % 2 else 0.05


def fading(step: int, position: int) -> float:
    return (0.9, 0.5, 0.1, 0.1, 0.1, 0.1)[position]


TEXTS = {
    "0 %": always(0.0),
    "10 %": always(0.1),
    "30 %": always(0.3),
    "50 %": always(0.5),
    "70 %": always(0.7),
    "90 %": always(0.9),
    "100 %": always(1.0),
    "fading by position": fading,
    "becomes good": flip(0.0, 1.0),
    "becomes bad": flip(1.0, 0.0),
    "comes and goes": waves,
}
machines = pytest.mark.parametrize("machine", [pytest.param(m, id=k) for k, m in MACHINES.items()])
texts = pytest.mark.parametrize("text", [pytest.param(t, id=k) for k, t in TEXTS.items()])


@machines
@texts
def test_never_slower_than_plain_nor_than_any_fixed_length(machine: Machine, text: Text) -> None:
    speeds = [fixed_speed(machine, text, n) for n in range(len(machine.rows))]
    speed = sum(run(machine, text, seed=seed).speed for seed in range(3)) / 3
    assert speed >= 0.97 * max(speeds)


@pytest.mark.parametrize("name", ["cheap rows", "half a step", "like a GPU", "free drafts"])
@pytest.mark.parametrize("at", [300, 307, 317, 323, 1000])
def test_flips_are_followed_within_32_steps(name: str, at: int) -> None:
    good = run(MACHINES[name], flip(0.0, 1.0, at), seed=at, steps=at + 60)
    assert good.states[at - 1] != "on"
    assert "off" not in good.states[at + 32 :] and "on" in good.states[at : at + 32]
    bad = run(MACHINES[name], flip(1.0, 0.0, at), seed=at, steps=at + 60)
    assert bad.states[at - 1] == "on"
    assert "on" not in bad.states[at + 32 :]
    # where a row costs next to nothing, a single draft token stays a fair bet for longer
    assert "off" in bad.states[at : at + 32] or max(bad.lengths[at + 32 :]) == 1


@pytest.mark.parametrize("chance", [0.0, 0.7, 1.0])
def test_a_machine_that_slows_down_changes_no_choice(chance: float) -> None:
    machine, text = MACHINES["cheap rows"], always(chance)
    busy = run(machine, text, slow=lambda step: 2.5 if 500 <= step < 1500 else 1.0)
    best = max(fixed_speed(machine, text, n) for n in range(4))
    assert busy.speed * (1000 + 2.5 * 1000) / STEPS >= 0.96 * best


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("error", [0.7, 1.4])
def test_costs_that_were_measured_wrong_at_load_are_put_right(chance: float, error: float) -> None:
    machine, text = MACHINES["cheap rows"], always(chance)
    wrong = Costs([machine.rows[0] * error, *machine.rows[1:]], machine.draft)
    best = max(fixed_speed(machine, text, n) for n in range(4))
    assert run(machine, text, costs=wrong).speed >= 0.93 * best


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("proposes", [0.05, 0.5])
def test_a_drafter_that_rarely_proposes(chance: float, proposes: float) -> None:
    machine, text = MACHINES["free drafts"], always(chance)
    best = max(fixed_speed(machine, text, n, proposes) for n in range(4))
    assert run(machine, text, proposes=proposes).speed >= 0.97 * best


def test_the_first_draft_after_a_pause_may_be_dear() -> None:
    text = flip(0.0, 1.0, 1000)
    result = run(MACHINES["cheap rows"], text, catch_up=5.0, steps=1100)
    assert set(result.states[1060:]) == {"on"}


def batch_speed(rates: list[float], row: float, fixed: list[int] | None = None) -> float:
    """Tokens per second of slots that share each step, of which a row more costs `row` seconds."""
    draft = (1e-3, 2e-3, 3e-3)
    controller = Controller(Costs([10e-3 + row * i for i in range(4)], draft), 3)
    luck = random.Random(1)
    for slot in range(len(rates)):
        controller.begin(slot)
    tokens = seconds = 0.0
    for _ in range(STEPS):
        asked = fixed or [controller.choose(slot) for slot in range(len(rates))]
        rows = sum(asked) + len(asked)
        target = 10e-3 + row * (rows - 1)
        drafting = draft[max(asked) - 1] if max(asked) else 0.0
        tokens += sum(expected(always(a), 0, n) for a, n in zip(rates, asked, strict=True))
        seconds += target + drafting
        target *= max(0.5, luck.gauss(1, 0.1)) * (5 if luck.random() < 0.01 else 1)
        for slot, (rate, n) in enumerate(zip(rates, asked, strict=True)):
            accepted = next((i for i in range(n) if luck.random() > rate), n)
            controller.record(slot, n, accepted, target, drafting, rows)
    return tokens / seconds


@pytest.mark.parametrize(
    ("rates", "row", "good"),
    [
        pytest.param([0.9, 0.9, 0.0, 0.0], 0.3e-3, [3, 3, 0, 0], id="two good, two bad"),
        pytest.param([0.0] * 4, 0.3e-3, [0] * 4, id="all bad"),
        pytest.param([1.0] * 4, 0.3e-3, [3] * 4, id="all good"),
        pytest.param([0.6] * 4, 8e-3, [0] * 4, id="rows too dear"),
    ],
)
def test_slots_that_share_a_step_choose_for_the_batch(
    rates: list[float], row: float, good: list[int]
) -> None:
    speed = batch_speed(rates, row)
    assert speed >= 0.97 * batch_speed(rates, row, [0] * 4)
    assert speed >= 0.95 * batch_speed(rates, row, good)
