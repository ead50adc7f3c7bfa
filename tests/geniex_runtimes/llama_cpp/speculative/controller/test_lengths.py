"""Lengths: within a task's limits, changed for a reason, and with the reason told."""

import random
import re
from itertools import pairwise

import pytest

from geniex_runtimes.llama_cpp.speculative.controller import Controller
from geniex_runtimes.llama_cpp.speculative.costs import Costs
from tests.geniex_runtimes.llama_cpp.speculative.controller.simulation import (
    MACHINES,
    Machine,
    always,
    run,
)


def test_without_adapting_the_length_is_fixed() -> None:
    controller = Controller(Costs([1.0, 9.0, 9.0], [9.0, 9.0]), 2, adapt=False)
    controller.begin(0)
    for _ in range(100):
        assert controller.choose(0) == 2
        controller.record(0, 2, 0, 9.0, 9.0)
    assert controller.state(0) == ("on", "")


def test_a_task_has_its_own_limits() -> None:
    machine = MACHINES["like a GPU"]
    controller = Controller(machine.costs(), 6)
    controller.begin(0, most=4, least=3)
    chosen = set()
    luck = random.Random(3)
    for _ in range(500):
        asked = controller.choose(0)
        accepted = next((i for i in range(asked) if luck.random() > 0.3), asked)
        controller.record(0, asked, accepted, machine.rows[asked], machine.seconds(asked) / 5)
        chosen.add(asked)
    assert chosen <= {0, 3, 4} and len(chosen) > 1
    controller.begin(0, most=0)
    assert controller.choose(0) == 0 and controller.state(0)[0] == "on"
    controller.begin(0, most=4, adapt=False)
    assert controller.choose(0) == 4


@pytest.mark.parametrize(("accepted", "first"), [(0, [1, 0, 0]), (3, [3, 3, 3])])
def test_a_new_slot_begins_with_what_the_others_learnt(accepted: int, first: list[int]) -> None:
    machine = MACHINES["cheap rows"]
    controller = Controller(machine.costs(), 3)
    controller.begin(0)
    assert controller.choose(0) == 3, "optimistic at first"

    def step(slot: int) -> int:
        asked = controller.choose(slot)
        taken = min(asked, accepted)
        seconds = machine.seconds(asked) - machine.rows[asked]
        controller.record(slot, asked, taken, machine.rows[asked], seconds)
        return asked

    for _ in range(200):
        step(0)
    controller.begin(1)
    # the first step of every answer is tried
    assert [step(1) for _ in first] == first


def play(machine: Machine, rates: list[float]) -> Controller:
    controller = Controller(machine.costs(), len(machine.draft))
    controller.begin(0)
    luck = random.Random(5)
    for _ in range(400):
        asked = controller.choose(0)
        accepted = next((i for i in range(asked) if luck.random() > rates[i]), asked)
        seconds = machine.seconds(asked) - machine.rows[asked]
        controller.record(0, asked, accepted, machine.rows[asked], seconds)
    return controller


def test_the_reason_gives_both_measured_speeds() -> None:
    state, reason = play(MACHINES["dear rows"], [0.0] * 3).state(0)
    assert state == "off"
    match = re.fullmatch(
        r"plain decoding is faster here: (\d+) against (\d+) tokens per second", reason
    )
    assert match is not None
    assert int(match[1]) == pytest.approx(1 / 15.9e-3, rel=0.1)
    assert int(match[2]) == pytest.approx(1 / 25.4e-3, rel=0.25)


def test_a_shorter_draft_is_reduced_and_says_so() -> None:
    state, reason = play(MACHINES["cheap rows"], [1.0, 0.0, 0.0]).state(0)
    assert state == "reduced"
    match = re.fullmatch(
        r"1 instead of 3 draft tokens are faster here: (\d+) against (\d+) tokens per second",
        reason,
    )
    assert match is not None
    assert int(match[1]) == pytest.approx(2 / 41.3e-3, rel=0.1)
    assert int(match[2]) == pytest.approx(2 / 54.7e-3, rel=0.2)


def test_a_step_that_carries_a_prompt_teaches_nothing_about_costs() -> None:
    controller = play(MACHINES["cheap rows"], [1.0] * 3)
    before = controller.choose(0)
    for _ in range(50):
        asked = controller.choose(0)
        controller.record(0, asked, asked, 3.0, 0.01, rows=600)
    assert before == 3 and controller.state(0)[0] == "on"


def test_lengths_change_only_for_a_reason() -> None:
    lengths = run(MACHINES["like a GPU"], always(1.0)).lengths[200:]
    changes = sum(one != other for one, other in pairwise(lengths))
    assert changes < len(lengths) / 20


@pytest.mark.parametrize(
    ("rows", "draft", "gain"),
    [
        pytest.param([1.0, 1.2, 1.4, 1.6], [0.2, 0.3, 0.4], 2.0, id="cheap-rows"),
        pytest.param([1.0, 1.6, 2.4, 3.4], [0.4, 0.8, 1.6], 1.0, id="dear-rows"),
        pytest.param([1.0, 1.25, 1.5, 9.0], [0.0, 0.0, 0.0], 2.0, id="a-dear-last-row"),
        pytest.param([1.0, 7.0, 8.0, 9.0], [1.0, 1.0, 1.0], 0.4, id="the-best-of-bad"),
    ],
)
def test_what_drafts_can_gain_at_most(rows: list[float], draft: list[float], gain: float) -> None:
    assert Costs(rows, draft).gain(3) == pytest.approx(gain)
    assert Costs(rows, draft).gain(0) == 0.0
