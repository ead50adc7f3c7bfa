"""Between the engine and its drafter: whom to draft for, how much, and what came of it."""

import logging
import time
from collections.abc import Sequence

from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.slot import Slot, Task
from geniex_runtimes.llama_cpp.speculative.controller import Controller
from geniex_runtimes.llama_cpp.speculative.copying import CopyController
from geniex_runtimes.llama_cpp.speculative.costs import MOST_ROWS
from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Drafter, Rows
from geniex_runtimes.llama_cpp.speculative.misfit import Misfit

log = logging.getLogger("geniex.llama_cpp.speculation")

# steps before the next draft from which on the drafter follows the target again
_AWAKE = 8
_FOR_EVER = 1 << 30


class Speculator:
    """Serves every slot of an engine with one drafter. Belongs to the engine's thread."""

    def __init__(
        self,
        drafter: Drafter,
        controller: Controller | CopyController,
        context: Context | None = None,
        misfit: Misfit | None = None,
    ) -> None:
        """`controller` knows the costs; `context` is the drafter's own, where it has one.

        `misfit` tells of a draft model that is never right.
        """
        self._misfit = misfit
        self._misfit_told = False
        self._drafter = drafter
        self._controller = controller
        self._context = context
        self._rows: Sequence[Rows] = ()
        self._passes = self._turn_rows = self._rows_before = 0
        # (slot, proposed, accepted) of the last step, told once it is known how long it took
        self._reports: list[tuple[int, int, int]] = []
        self._started = 0.0
        # slots with a speculating task, and for how many steps they stay plain
        self._resting: dict[int, int] = {}
        self._paused = False
        # turns that are left in which nobody drafts, learns or is followed; and how many they were
        self._quiet = self._quiet_for = 0
        self._chosen: set[int] = set()  # slots that this turn's step was chosen for
        self._drafted = 0.0
        self._draft_seconds = 0.0
        self._verify_seconds = 0.0
        self._told = ""

    def begin(self, slot: Slot, task: Task, kept: int) -> int:
        """A task starts; return how many of the `kept` tokens the drafter can do with."""
        wanted = task.speculative
        self._wake()
        self._reports = [report for report in self._reports if report[0] != slot.index]
        if wanted.types:
            task.tally.state = "on"
            self._controller.begin(
                slot.index, most=wanted.n_max, least=wanted.n_min, adapt=wanted.adapt
            )
            resting = self._resting[slot.index] = self._controller.rest(slot.index)
            if resting <= 2 * _AWAKE:
                self._resume()
        return self._drafter.begin(slot.index, kept)

    def adopt(self, slot: Slot) -> None:
        """A slot without a task has been filled from a file."""
        self._drafter.adopt(slot.index, slot.tokens)

    def propose(self, slots: Sequence[Slot], length: int) -> None:
        """Set the drafts of slots that are answering, in a context of `length` tokens per slot."""
        if self._quiet:
            self._quiet -= 1
            if self._quiet:
                return
            self._wake()
        started = time.perf_counter()
        self._report(started - self._started)
        self._started, self._turn_rows, self._passes = started, 0, 0
        if self._controller.quick:
            self._look()
        asking: list[tuple[Slot, int]] = []
        asks: list[Ask] = []
        self._chosen.clear()
        for slot in slots:
            task = slot.task
            if task is None or not task.speculative.types:
                continue
            if resting := self._resting[slot.index]:
                self._resting[slot.index] = resting - 1
                continue
            room = length - len(slot.tokens) - 1
            if task.max_tokens is not None:
                room = min(room, task.max_tokens - task.generated - 1)
            self._chosen.add(slot.index)
            n_max = min(self._controller.choose(slot.index), room)
            if n_max > 0:
                p_min = task.speculative.p_min
                asks.append(Ask(slot.index, slot.tokens, slot.last, n_max, p_min))
                task.tally.asked = True
                asking.append((slot, task.speculative.n_min))
        if asks:
            for (slot, least), draft in zip(asking, self._drafter.draft(asks), strict=True):
                slot.draft = draft if len(draft) >= least else []
        self._drafted = time.perf_counter()
        self._draft_seconds = self._drafted - started

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._drafter.resume()
            self._rows_before = 0

    def _look(self) -> None:
        """Let the drafter pause while nobody drafts for long, and resume it in time."""
        soonest = min(self._resting.values(), default=_FOR_EVER)
        if soonest <= _AWAKE:
            self._resume()
        elif not self._paused and soonest > 2 * _AWAKE:
            self._paused = True
            self._drafter.pause()
        if self._paused:
            self._quiet = self._quiet_for = max(0, soonest - _AWAKE)

    def _wake(self) -> None:
        """The quiet is over, before its time or at it: the turns that it took have passed."""
        passed = self._quiet_for - self._quiet
        self._quiet = self._quiet_for = 0
        for slot, steps in self._resting.items():
            self._resting[slot] = max(0, steps - passed)

    def process(self, rows: Sequence[Rows]) -> None:
        """Follow a decode of the target."""
        if self._quiet:
            return
        self._drafter.process(rows)
        self._rows = rows
        self._passes += 1
        self._turn_rows += sum(len(one.tokens) for one in rows)
        self._verify_seconds = time.perf_counter() - self._drafted

    def settle(self, slot: Slot, task: Task, accepted: int) -> None:
        """A slot's step is over: `accepted` tokens of its draft, which may be empty, stay."""
        if self._quiet or slot.index not in self._chosen:
            return
        proposed = len(slot.draft)
        self._reports.append((slot.index, proposed, accepted))
        if proposed:
            task.tally.count(proposed, accepted)
            if self._misfit is not None:
                self._misfit.count(proposed, accepted)
            task.tally.draft_time += self._draft_seconds
            task.tally.verify_time += self._verify_seconds
            verified = next(one for one in self._rows if one.slot == slot.index)
            self._drafter.accept(slot.index, verified, accepted)

    def _report(self, seconds: float) -> None:
        """Tell the controller of the last turn, which took so long in all."""
        if not self._reports:
            self._rows_before = 0
            return
        # of several evaluations in a turn nobody knows which took how long
        rows = self._turn_rows if self._passes == 1 else MOST_ROWS + 1
        steady, self._rows_before = rows == self._rows_before, rows
        for slot, proposed, accepted in self._reports:
            self._controller.record(
                slot,
                proposed,
                accepted,
                seconds - self._draft_seconds,
                self._draft_seconds,
                rows,
                steady=steady,
            )
            if slot in self._resting:
                self._resting[slot] = self._controller.rest(slot)
        self._reports.clear()

    def finish(self, slot: Slot, task: Task) -> None:
        """A task ends: note whether it speculated to the end, and log a change once."""
        if not task.speculative.types:
            return
        self._reports = [report for report in self._reports if report[0] != slot.index]
        task.tally.state, task.tally.reason = self._controller.state(slot.index)
        if task.tally.asked and not task.tally.proposed:
            task.tally.state, task.tally.reason = "on", "no draft was proposed in this answer"
        if self._misfit is not None and (note := self._misfit.note):
            task.tally.reason = "; ".join(filter(None, (task.tally.reason, note)))
            if not self._misfit_told:
                self._misfit_told = True
                log.warning("%s", note)
        if task.tally.state != self._told:
            self._told = task.tally.state
            log.info("speculation is %s %s", task.tally.state, task.tally.reason)

    def leave(self, slot: int) -> None:
        """A slot's task has ended, in whatever way."""
        self._wake()
        resting = self._resting.pop(slot, None)
        if resting is not None:
            self._controller.leave(slot, resting)

    def use_threads(self, threads: int) -> None:
        """Use so many CPU threads for drafting."""
        if self._context is not None:
            self._context.use_threads(threads)

    def close(self) -> None:
        """Free the drafter."""
        self._drafter.close()
