"""How long copies are: they grow while they are right, and cost next to nothing where they are not.

A machine of made-up seconds, on which a step with n rows takes `step(n)`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from geniex_runtimes.llama_cpp.speculative.copying import CopyController
from geniex_runtimes.llama_cpp.speculative.costs import Costs

N_MAX = 15


def dear(rows: int) -> float:
    """As SmolLM2 on one thread of a CPU: each further row costs more than half of the first."""
    return 0.0048 + 0.0064 * rows


def cheap(rows: int) -> float:
    """As a large model on a GPU."""
    return 0.0098 + 0.0002 * rows


def as_dear_as_plain(rows: int) -> float:
    """Where drafts can gain nothing."""
    return 0.01 * rows


@dataclass
class Run:
    """An engine with one slot; `right` tells how many of so many proposed tokens are right."""

    step: Callable[[int], float]
    seconds: float = 0.0
    tokens: int = 0
    lengths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        costs = Costs([self.step(rows) for rows in range(1, N_MAX + 2)], [0.0] * N_MAX)
        self.controller = CopyController(costs, N_MAX)
        self.controller.begin(0)

    def go(self, steps: int, right: Callable[[int], int | None]) -> None:
        """`right` gives None where nothing is found to copy."""
        for _ in range(steps):
            asked = self.controller.choose(0)
            found = right(asked) if asked else None
            proposed, accepted = (0, 0) if found is None else (asked, found)
            took = self.step(1 + proposed)
            self.controller.record(0, proposed, accepted, took, 0.0)
            self.seconds += took
            self.tokens += 1 + accepted
            self.lengths.append(proposed)

    @property
    def gain(self) -> float:
        """The speed, to that of plain decoding."""
        return self.tokens * self.step(1) / self.seconds


def test_a_copy_grows_as_it_goes_on() -> None:
    run = Run(dear)
    run.go(20, lambda asked: asked)
    assert run.lengths[0] < 8 and run.lengths == sorted(run.lengths)
    assert run.lengths[5] == N_MAX
    assert run.gain > 1.5
    assert run.controller.state(0) == ("on", "")


@pytest.mark.parametrize("step", [dear, cheap, as_dear_as_plain])
@pytest.mark.parametrize("every", [1, 7])
def test_what_only_seems_to_repeat_costs_next_to_nothing(
    step: Callable[[int], float], every: int
) -> None:
    run = Run(step)
    dice = random.Random(3)
    run.go(400, lambda _: None if dice.randrange(every) else 0)
    assert run.gain > 0.965


def test_another_answer_does_not_begin_with_all_that_was_earned() -> None:
    run = Run(dear)
    run.go(40, lambda asked: asked)
    run.controller.begin(0)
    lost = Run(dear)
    lost.controller = run.controller
    lost.go(128, lambda _: 0)
    assert lost.gain > 0.96


def test_copies_that_are_right_now_and_then_are_short_where_rows_are_dear() -> None:
    def right(asked: int) -> int:
        return min(asked, next(n for n in range(99) if dice.random() > 0.75))

    longest = {}
    for step in (dear, cheap):
        dice = random.Random(5)
        run = Run(step)
        run.go(300, right)
        assert run.gain > 0.98
        longest[step] = sorted(run.lengths)[150]
    assert longest[dear] < 4 < longest[cheap]


def test_a_text_that_turns_to_copying_is_noticed() -> None:
    run = Run(dear)
    run.go(200, lambda _: 0)
    before = len(run.lengths)
    run.go(200, lambda asked: asked)
    assert N_MAX in run.lengths[before : before + 100]


def test_drafts_that_are_not_adapted_are_as_long_as_asked() -> None:
    run = Run(as_dear_as_plain)
    run.controller.begin(0, most=5, adapt=False)
    run.go(20, lambda _: 0)
    assert set(run.lengths) == {5}


def test_no_draft_is_shorter_than_asked() -> None:
    run = Run(dear)
    run.controller.begin(0, least=3)
    run.go(100, lambda asked: asked // 2)
    assert all(length >= 3 for length in run.lengths if length)


def test_beside_other_answers_a_token_is_worth_less() -> None:
    lengths = []
    for others in (0, 7):
        run = Run(dear)
        for _ in range(4):
            asked = run.controller.choose(0)
            rows = others + 1 + asked
            run.controller.record(0, asked, asked, dear(rows), 0.0, rows)
        lengths.append(run.controller.choose(0))
    assert lengths[0] > lengths[1]
