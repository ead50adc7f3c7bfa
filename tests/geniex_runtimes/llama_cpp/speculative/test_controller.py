"""Simulated machines and texts: whatever they are like, speculation is never the slower way."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from geniex_runtimes.llama_cpp.speculative.controller import Controller
from geniex_runtimes.llama_cpp.speculative.costs import Costs

STEPS = 2000
Text = Callable[[int, int], float]  # chance that position i (from 0) is accepted, at a step


@dataclass(frozen=True)
class Machine:
    """Seconds of a target decode of 1, 2, ... rows, and of a draft of 1, 2, ... tokens."""

    rows: tuple[float, ...]
    draft: tuple[float, ...]

    def seconds(self, n: int) -> float:
        return self.rows[n] + (self.draft[n - 1] if n else 0.0)

    def costs(self) -> Costs:
        return Costs(self.rows, self.draft)


@dataclass
class Run:
    """Lengths and states step by step, and tokens per second: those to expect of the lengths."""

    lengths: list[int]
    states: list[str]
    speed: float


def expected(text: Text, step: int, n: int) -> float:
    """Tokens that a step with n draft tokens emits on average."""
    tokens = alive = 1.0
    for position in range(n):
        alive *= text(step, position)
        tokens += alive
    return tokens


def fixed_speed(machine: Machine, text: Text, n: int, proposes: float = 1.0) -> float:
    """Tokens per second of drafting n tokens at every step."""
    gained = sum(expected(text, step, n) - 1 for step in range(STEPS)) / STEPS
    seconds = machine.rows[0] + proposes * (machine.seconds(n) - machine.rows[0])
    return (1 + proposes * gained) / seconds


def run(
    machine: Machine,
    text: Text,
    *,
    seed: int = 0,
    costs: Costs | None = None,
    slow: Callable[[int], float] = lambda step: 1.0,
    proposes: float = 1.0,
    catch_up: float = 1.0,
    steps: int = STEPS,
) -> Run:
    """Let a controller decide, with noise and hiccups in what it measures."""
    luck = random.Random(seed)
    controller = Controller(costs or machine.costs(), len(machine.draft))
    controller.begin(0)
    result = Run([], [], 0.0)
    tokens = seconds = 0.0
    drafted = True
    for step in range(steps):
        asked = controller.choose(0)
        proposed = asked if luck.random() < proposes else 0
        accepted = 0
        while accepted < proposed and luck.random() < text(step, accepted):
            accepted += 1
        target = machine.rows[proposed] * slow(step)
        draft = (machine.draft[asked - 1] if asked else 0.0) * slow(step)
        tokens += expected(text, step, proposed)
        seconds += target + draft
        if not drafted:
            draft *= catch_up
        drafted = asked > 0
        noise = [max(0.5, luck.gauss(1, 0.1)) * (5 if luck.random() < 0.01 else 1) for _ in "td"]
        controller.record(0, proposed, accepted, target * noise[0], draft * noise[1])
        result.lengths.append(asked)
        result.states.append(controller.state(0)[0])
    result.speed = tokens / seconds
    return result


def always(chance: float) -> Text:
    return lambda step, position: chance


def flip(before: float, after: float, at: int = STEPS // 2) -> Text:
    return lambda step, position: after if step >= at else before


def waves(step: int, position: int) -> float:
    return 0.9 if step // 200 % 2 else 0.05


def fading(step: int, position: int) -> float:
    return (0.9, 0.5, 0.1, 0.1, 0.1, 0.1)[position]


MACHINES = {
    "cheap rows": Machine((35.2e-3, 38.3e-3, 42e-3, 45.7e-3), (3e-3, 6e-3, 9e-3)),
    "dear rows": Machine((15.9e-3, 24.4e-3, 31e-3, 38.1e-3), (1e-3, 2e-3, 3e-3)),
    "half a step": Machine((10e-3, 14.5e-3, 18e-3, 22e-3), (0.5e-3, 1e-3, 1.5e-3)),
    "second row dear": Machine((10e-3, 16e-3, 17e-3, 18e-3), (1e-3, 2e-3, 3e-3)),
    "draft as dear as target": Machine((10e-3, 15e-3, 19e-3, 24e-3), (10e-3, 20e-3, 30e-3)),
    "like a GPU": Machine(
        (10e-3, 10.2e-3, 10.4e-3, 10.6e-3, 10.8e-3, 11e-3, 11.2e-3),
        (0.5e-3, 1e-3, 1.5e-3, 2e-3, 2.5e-3, 3e-3),
    ),
    "free drafts": Machine((10e-3, 12e-3, 14e-3, 16e-3), (5e-6, 5e-6, 5e-6)),
    "toy": Machine((0.34e-3, 0.6e-3, 0.9e-3, 1.2e-3), (0.2e-3, 0.4e-3, 0.6e-3)),
}
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
def test_every_answer_opens_with_a_trial(accepted: int, first: list[int], later: list[int]) -> None:
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
