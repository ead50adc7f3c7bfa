"""How fast prompts may go in while answers are running, and whose prompt is next.

Prompts have a share of the time, kept as a token bucket keeps a rate (Turner, "New Directions in
Communications", 1986): time that passes earns it, a chunk spends what it took. What is rationed is
how often there is a chunk. Where a prompt is cut must not show in its numbers, so a chunk has the
rows that a CPU evaluates at once in any case, or, where that takes long, the part of them that the
model's weights allow (`Limits.cut`).
"""

import time
from collections.abc import Callable, Sequence

from geniex_runtimes.llama_cpp.context import BATCH_ROWS, CPU_ROWS
from geniex_runtimes.llama_cpp.slot import Slot

# of the time, beside running answers: they are to keep 0.6 of their speed, and the rest is for what
# a chunk costs them beyond its own time (caches, another graph)
SHARE = 0.36
# seconds of evaluating prompts that may be saved up: a beginning does not wait
MOST_SAVED = 0.1
# seconds that may be owed where all prompts are short: clients that come together answer together,
# for few rows cost nearly as much as many; what is owed is earned before any more go in
MOST_OWED = 0.6
# rows at once where nobody is kept waiting; a whole multiple of what a CPU evaluates at once
ALONE_ROWS = BATCH_ROWS // CPU_ROWS * CPU_ROWS
# rows at once beside answers on a device, for which few rows are as slow as many
DEVICE_ROWS = 2 * CPU_ROWS
# seconds of a chunk from which on a smaller one is better: streams should not stutter
LONG = 0.1
# of one chunk in what a row is believed to take
_WEIGHT = 1 / 4


class Pace:
    """Rations prompts beside answers. Belongs to the engine's thread."""

    def __init__(
        self, *, on_cpu: bool, cut: int = CPU_ROWS, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """A prompt may be cut at multiples of `cut`, a part of CPU_ROWS; `clock` gives seconds."""
        self._shared_rows = CPU_ROWS if on_cpu else DEVICE_ROWS
        self._cut = min(cut, self._shared_rows)
        self._row_seconds = 0.0
        self._clock = clock
        self._saved = MOST_SAVED
        self._since = clock()
        self._oldest_next = True

    def rows(self, *, shared: bool) -> int:
        """The most rows of a prompt to evaluate at once, beside running answers or alone."""
        if not shared:
            return ALONE_ROWS
        slow = self._shared_rows * self._row_seconds > LONG
        return self._cut if slow else self._shared_rows

    def allows(self, waiting: Sequence[Slot]) -> bool:
        """Whether a chunk of the slots that are prefilling may be evaluated beside answers now.

        `spend` is to follow it.
        """
        now = self._clock()
        earned = (now - self._since) * SHARE / (1 - SHARE)
        self._saved = min(MOST_SAVED, self._saved + earned)
        self._since = now
        if self._saved > 0:
            return True
        short = all(slot.left <= self._shared_rows for slot in waiting)
        return short and self._saved > -MOST_OWED

    def spend(self, rows: int) -> None:
        """A chunk of so many rows is done: what it took since `allows` is spent."""
        now = self._clock()
        took = now - self._since
        self._saved -= took
        self._since = now
        self._row_seconds += _WEIGHT * (took / rows - self._row_seconds)

    def next(self, waiting: Sequence[Slot]) -> Slot:
        """Whose prompt goes on, of slots that are prefilling.

        In turns the one that has waited longest and the one with the least left: a long prompt
        holds up no short one, and short ones never hold it up for ever.
        """
        self._oldest_next = not self._oldest_next
        if self._oldest_next:
            return min(waiting, key=lambda slot: slot.left)
        return min(waiting, key=lambda slot: slot.task.started if slot.task else 0.0)
