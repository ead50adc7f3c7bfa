"""Trials: drafts that tell whether drafting would pay, and what they may cost."""

import pytest

from geniex_runtimes.llama_cpp.speculative.controller import Controller
from tests.geniex_runtimes.llama_cpp.speculative.controller.simulation import (
    MACHINES,
    STEPS,
    always,
    run,
)


@pytest.mark.parametrize(("chance", "openings"), [(1.0, 1), (0.0, 4)])
@pytest.mark.parametrize("name", ["draft as dear as target", "toy"])
def test_what_cannot_pay_is_tried_at_the_start_alone(
    name: str, chance: float, openings: int
) -> None:
    result = run(MACHINES[name], always(chance), steps=1000)
    assert result.lengths == [1] * openings + [0] * (1000 - openings)
    assert set(result.states) == {"off"}


@pytest.mark.parametrize(
    ("accepted", "first", "later"),
    [(1, [1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]), (0, [1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0])],
    ids=["right", "wrong"],
)
def test_the_first_answers_open_with_a_trial(
    accepted: int, first: list[int], later: list[int]
) -> None:
    machine = MACHINES["toy"]
    controller = Controller(machine.costs(), 3)
    for expected in (first, later, later):
        controller.begin(0)
        lengths = []
        for _ in expected:
            asked = controller.choose(0)
            lengths.append(asked)
            taken = min(asked, accepted)
            controller.record(0, asked, taken, machine.rows[asked], machine.draft[0] * asked)
        assert lengths == expected


def test_later_answers_open_with_a_trial_as_the_budget_allows() -> None:
    machine = MACHINES["toy"]
    controller = Controller(machine.costs(), 3)
    tried = 0
    for _ in range(80):
        controller.begin(0)
        left = 50  # steps of each answer
        while (rest := controller.rest(0)) < left:
            left -= rest + 1
            asked = controller.choose(0)
            tried += asked
            controller.record(0, asked, 0, machine.rows[asked], machine.draft[0] * asked)
        controller.leave(0, rest - left)
    # four and seven at first; of 4,000 tokens one in two hundred may be lost, and each loses 1.35
    assert 11 + 10 <= tried <= 11 + 15


def test_the_rest_that_an_answer_did_not_take_earns_nothing() -> None:
    machine = MACHINES["toy"]

    def tried(left: int) -> int:
        controller = Controller(machine.costs(), 3)
        count = 0
        for _ in range(60):
            controller.begin(0)
            if not controller.rest(0):
                asked = controller.choose(0)
                count += asked
                controller.record(0, asked, 0, machine.rows[asked], machine.draft[0] * asked)
                controller.rest(0)
            controller.leave(0, left)
        return count

    assert tried(255) < tried(0)


def test_a_right_draft_where_none_can_pay_does_not_keep_the_slot_awake() -> None:
    machine = MACHINES["toy"]
    controller = Controller(machine.costs(), 3)
    controller.begin(0)
    for _ in range(4):
        asked = controller.choose(0)
        controller.record(0, asked, 0, machine.rows[asked], machine.draft[0] * asked)
    controller.begin(0)
    assert controller.choose(0) == 1
    controller.record(0, 1, 1, machine.rows[1], machine.draft[0])
    assert controller.rest(0) > 100


def test_resting_lasts_until_the_next_trial() -> None:
    machine = MACHINES["dear rows"]
    controller = Controller(machine.costs(), 3)
    controller.begin(0)
    gaps, gap = [], 0
    for _ in range(400):
        asked = controller.choose(0)
        controller.record(0, asked, 0, machine.rows[asked], machine.draft[0] if asked else 0.0)
        rest = controller.rest(0)
        gap += 1 + rest
        if asked:
            gaps.append(gap)
            gap = 0
    # nothing is ever accepted: trials go on, at most every 16 steps, as the budget allows
    assert len(gaps) > 10 and min(gaps[10:]) >= 16 and max(gaps[10:]) <= 120


def test_after_a_trial_that_shows_nothing_the_slot_rests_at_once() -> None:
    machine = MACHINES["toy"]
    controller = Controller(machine.costs(), 3)
    controller.begin(0)
    for left in range(3, -1, -1):
        assert controller.choose(0) == 1
        controller.record(0, 1, 0, machine.rows[1], machine.draft[0])
        # the next of the opening trials is due, else nothing for a while
        assert (controller.rest(0) > 0) is (left == 0)


def test_after_a_trial_that_shows_much_the_slot_goes_on() -> None:
    machine = MACHINES["cheap rows"]
    controller = Controller(machine.costs(), 3)
    controller.begin(0)
    for _ in range(20):
        asked = controller.choose(0)
        drafting = machine.draft[asked - 1] if asked else 0.0
        controller.record(0, asked, asked, machine.rows[asked], drafting)
        assert asked == 0 or controller.rest(0) == 0


def test_a_trial_is_charged_with_the_graphs_that_it_makes_llama_cpp_build() -> None:
    machine = MACHINES["cheap rows"]

    def trials(switch: float) -> int:
        controller = Controller(machine.costs(), 3)
        controller.begin(0)
        before, count = 0, 0
        for _ in range(STEPS):
            asked = controller.choose(0)
            seconds = machine.rows[asked] + (switch if asked != before else 0.0)
            drafting = machine.draft[asked - 1] if asked else 0.0
            controller.record(0, asked, 0, seconds, drafting, steady=asked == before)
            count += asked > 0
            before = asked
        return count

    assert trials(machine.rows[0]) < trials(0.0) / 2


@pytest.mark.parametrize("name", ["cheap rows", "dear rows", "like a GPU"])
def test_trials_become_rare_and_cheap(name: str) -> None:
    lengths = run(MACHINES[name], always(0.0)).lengths[100:]
    assert sum(n > 0 for n in lengths) < len(lengths) / 15
