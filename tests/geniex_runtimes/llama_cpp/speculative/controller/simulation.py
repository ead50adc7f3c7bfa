"""Simulated machines and texts, and a controller that decides on them."""

import random
from collections.abc import Callable
from dataclasses import dataclass

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
