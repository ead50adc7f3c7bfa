"""Who sits where: the slots of a context, what each holds, and which task gets which."""

import time
from collections import deque

from geniex_catalogue.errors import GenerationError
from geniex_runtimes.llama_cpp.company import Limits
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.slot import Slot, Task
from geniex_runtimes.llama_cpp.speculative.speculator import Speculator
from geniex_runtimes.llama_cpp.weights import Weights


class Seating:
    """The slots of an engine, on whose thread all of this runs."""

    def __init__(
        self, weights: Weights, context: Context, limits: Limits, speculator: Speculator | None
    ) -> None:
        self._weights = weights
        self._context = context
        self._limits = limits
        self._speculator = speculator
        self.slots = [Slot(index) for index in range(context.options.slots)]

    def free(self, slot: Slot) -> None:
        """The slot's task has ended; what it holds stays for the next one."""
        slot.task = None
        slot.used = time.monotonic()
        if self._speculator is not None:
            self._speculator.leave(slot.index)

    def assign(self, waiting: deque[Task]) -> None:
        """Give waiting tasks the free slots, each the one that holds most of its prompt."""
        while waiting:
            free = [slot for slot in self.slots if slot.task is None]
            if not free:
                return
            task = waiting.popleft()
            slot = max(free, key=lambda slot: (slot.worth(task.prompt), -slot.used))
            task.started = time.perf_counter()
            task.cached = self._reuse(slot, task.prompt) if task.reuse_prefix else 0
            if self._speculator is not None:
                task.cached = self._speculator.begin(slot, task, task.cached)
            if 0 < task.cached < len(slot.tokens) and not self._context.keep(
                slot.index, task.cached
            ):
                task.cached = 0
            if task.cached == 0:
                self._context.keep(slot.index, 0)
            slot.tokens = slot.tokens[: task.cached]
            slot.task, slot.asked = task, len(task.prompt)

    def _reuse(self, slot: Slot, prompt: list[int]) -> int:
        """Cut a slot's cells back to what a prompt shares; return how many tokens stay.

        At least one token of the prompt is left to evaluate, for its logits.
        """
        shared = max(0, min(slot.shared(prompt), len(prompt) - self._limits.rest))
        if shared == 0 or shared == len(slot.tokens):
            return shared
        if not self._weights.rolls_back:
            return 0
        window = self._weights.sliding_window
        if window and self._context.first_position(slot.index) > max(0, shared - window):
            return 0  # the cells that the window needs are gone
        return shared if self._context.keep(slot.index, shared) else 0

    def recover(self) -> None:
        """After a failed or stopped decode: drop the cells of rows that did not count."""
        for slot in self.slots:
            slot.draft = []
            kept = self._weights.rolls_back and self._context.keep(slot.index, len(slot.tokens))
            if kept:
                continue
            self._context.keep(slot.index, 0)
            slot.tokens = []
            if slot.task is not None and not slot.task.cancelled:
                slot.task.fail(GenerationError("the model's state was lost by a stopped request"))
                self.free(slot)
