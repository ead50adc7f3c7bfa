"""The steps of a check, what became of each, and the whole as text and as JSON."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

Facts: TypeAlias = dict[str, Any]


class FailedError(Exception):
    """Raised by a step that does not show what it is to show."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it was to show, whether it did, and what was measured; seconds it took."""

    name: str
    passed: bool
    seconds: float
    facts: Facts = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True)
class Report:
    """All steps so far, and what they ran on; each is told on stderr when it ends."""

    machine: Facts = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def run(self, name: str, step: Callable[[], Facts]) -> bool:
        """Run a step, and tell whether it passed; its failure is part of the report."""
        start = time.monotonic()
        facts: Facts = {}
        error = None
        try:
            facts = step()
        except Exception as exc:
            error = str(exc) if isinstance(exc, FailedError) else f"{type(exc).__name__}: {exc}"
        seconds = round(time.monotonic() - start, 2)
        self.steps.append(Step(name, error is None, seconds, facts, error))
        print(_line(self.steps[-1]), file=sys.stderr, flush=True)
        return error is None

    @property
    def passed(self) -> bool:
        """Whether every step did."""
        return all(step.passed for step in self.steps)

    def text(self) -> str:
        """The report for people."""
        # probes and versions are for programs
        facts = [f"{name}: {it}" for name, it in self.machine.items() if not isinstance(it, dict)]
        good = sum(step.passed for step in self.steps)
        end = f"{good} of {len(self.steps)} steps passed"
        return "\n".join([*facts, "", *map(_line, self.steps), "", end])

    def as_json(self) -> str:
        """The report for programs."""
        steps = [asdict(step) for step in self.steps]
        return json.dumps(
            {"passed": self.passed, "machine": self.machine, "steps": steps}, indent=2
        )


def expect(condition: bool, otherwise: str) -> None:
    """Fail the step where something is not so."""
    if not condition:
        raise FailedError(otherwise)


def _line(step: Step) -> str:
    word = "ok    " if step.passed else "FAILED"
    facts = ", ".join(f"{name} {value}" for name, value in step.facts.items())
    return f"{word} {step.name} ({step.seconds} s){': ' if facts or step.error else ''}" + (
        step.error or facts
    )
