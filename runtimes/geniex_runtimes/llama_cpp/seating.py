"""Who sits where: the slots of a context, what each holds, and which task gets which."""

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.company import Limits
from geniex_runtimes.llama_cpp.context import CPU_ROWS, Context
from geniex_runtimes.llama_cpp.keeping import BEFORE_ANSWER, LEAST, Usable
from geniex_runtimes.llama_cpp.prefix_file import Head
from geniex_runtimes.llama_cpp.slot import Part, Slot, Task
from geniex_runtimes.llama_cpp.speculative.speculator import Speculator
from geniex_runtimes.llama_cpp.weights import Weights
from geniex_runtimes.memory import KEPT_STATES

log = logging.getLogger("geniex.llama_cpp.engine")


class Keeper(Protocol):
    """Keeps on disk what slots hold. Belongs to the engine's thread.

    `tokens` and `parts` are what the first slot holds already.
    """

    tokens: list[int]
    parts: tuple[Part, ...]

    def timed(self, task: Task) -> None:
        """A task has ended."""
        ...

    def find(self, prompt: Sequence[int], held: int, usable: Usable) -> Head | None:
        """What is better to restore than to go on with `held` tokens of the prompt."""
        ...

    def restore(self, slot: Slot, head: Head) -> bool:
        """Fill a slot; where that fails it is empty."""
        ...

    def common(self, prompt: Sequence[int]) -> int:
        """How many first tokens of a prompt something has that is kept and goes on differently."""
        ...

    def give_up(self, slot: Slot, held: int, *, cuts: bool) -> None:
        """A slot is to have its first `held` tokens alone, and may be cut back to them.

        `cuts`: what is saved of a sequence can be cut back anywhere afterwards.
        """
        ...

    def end(self, slots: Sequence[Slot], *, cuts: bool) -> None:
        """The engine ends; its context is still there."""
        ...


class Seating:
    """The slots of an engine, on whose thread all of this runs."""

    def __init__(
        self,
        weights: Weights,
        context: Context,
        limits: Limits,
        speculator: Speculator | None,
        keeper: Keeper | None = None,
    ) -> None:
        self._keeper = keeper
        self._weights = weights
        self._context = context
        self._limits = limits
        self._speculator = speculator
        self.slots = [Slot(index) for index in range(context.options.slots)]
        if keeper is not None and keeper.tokens:
            self.slots[0].tokens, self.slots[0].parts = list(keeper.tokens), keeper.parts
            self._brought_back(self.slots[0])

    @property
    def _cuts(self) -> bool:
        """Whether what is saved of a sequence can be cut back anywhere afterwards."""
        return self._weights.rolls_back and not self._weights.sliding_window

    def free(self, slot: Slot) -> None:
        """The slot's task has ended; what it holds stays for the next one."""
        if self._keeper is not None and slot.task is not None:
            self._keeper.timed(slot.task)
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
            task.started = time.perf_counter()
            slot = self._choose(free, task)
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
            slot.parts = tuple(part for part in slot.parts if part.length <= task.cached)
            slot.marks = self._marks(slot, task)
            task.restored, slot.restored = min(slot.restored, task.cached), 0
            slot.task, slot.asked = task, len(task.prompt)

    def _choose(self, free: Sequence[Slot], task: Task) -> Slot:
        """The slot for a task: what it holds is kept if need be, what is kept brought back."""
        slot = max(free, key=lambda slot: (slot.worth(task.prompt), -slot.used))
        common = 0 if self._cuts else self._common(task)
        if self._keeper is None:
            slot.common = common
            return slot
        held, found = 0, None
        if task.reuse_prefix:
            held = self._reusable(slot, task.prompt)
            found = self._keeper.find(task.prompt, held, self._usable)
        if found is not None:
            slot, held = min(free, key=lambda slot: slot.used), 0
        self._keeper.give_up(slot, held, cuts=self._cuts)
        slot.common = common
        if found is not None and self._keeper.restore(slot, found):
            self._brought_back(slot)
        return slot

    def _common(self, task: Task) -> int:
        """How many first tokens of a prompt another one had that went on differently.

        Likely there will be more such prompts.
        """
        shared = self._keeper.common(task.prompt) if self._keeper is not None else 0
        for slot in self.slots:
            if (part := slot.shared(task.prompt)) < len(slot.tokens):
                shared = max(shared, part)
        return max(0, min(shared, len(task.prompt) - self._limits.rest))

    def _marks(self, slot: Slot, task: Task) -> tuple[int, ...]:
        """Where to save a recurrent state, which only goes back to where it was saved.

        At whole multiples of what is evaluated at once: where a prompt is cut must not show.
        """
        prompt = len(task.prompt)
        if self._weights.rolls_back or prompt < LEAST:
            return ()
        wanted = {slot.common, prompt - BEFORE_ANSWER}
        steps = {(length - task.cached) // CPU_ROWS for length in wanted if length >= LEAST}
        return tuple(task.cached + step * CPU_ROWS for step in sorted(steps) if step > 0)

    def reached(self, slot: Slot) -> None:
        """Part of a prompt was evaluated: save the state where that was to be done."""
        if len(slot.tokens) in slot.marks:
            part = Part(len(slot.tokens), self._context.save(slot.index))
            slot.parts = (*slot.parts[1 - KEPT_STATES :], part)
            slot.marks = tuple(mark for mark in slot.marks if mark > part.length)

    def _brought_back(self, slot: Slot) -> None:
        """A slot has been filled from a file."""
        slot.restored = len(slot.tokens)
        if self._speculator is not None:
            self._speculator.adopt(slot)

    def end(self) -> None:
        """The engine ends: keep on disk what is to be kept."""
        if self._keeper is None:
            return
        try:
            self._keeper.end(self.slots, cuts=self._cuts)
        except Exception:  # the model is closed all the same
            log.exception("what was evaluated could not be kept")

    def _reuse(self, slot: Slot, prompt: list[int]) -> int:
        """Cut a slot's cells back to what a prompt shares; return how many tokens stay.

        At least one token of the prompt is left to evaluate, for its logits.
        """
        shared = self._reusable(slot, prompt)
        if shared == 0 or shared == len(slot.tokens):
            return shared
        part = next((part for part in slot.parts if part.length == shared), None)
        if part is not None:
            kept = self._context.restore(slot.index, part.state, shared)
        else:
            kept = self._context.keep(slot.index, shared)
        return shared if kept else 0

    def _reusable(self, slot: Slot, prompt: list[int]) -> int:
        """How many tokens of a slot can stay for a prompt."""
        first = self._context.first_position(slot.index)
        lengths = [part.length for part in slot.parts]
        shared = slot.shared(prompt)
        return self._usable(len(slot.tokens), shared, first, len(prompt), lengths)

    def _usable(
        self, held: int, shared: int, first: int, prompt: int, lengths: Sequence[int] = ()
    ) -> int:
        """How many of `held` tokens can stay for a prompt of `prompt`, of which `shared` are its.

        `first` is the earliest position that still has cells; `lengths` can be gone back to anyway.
        """
        shared = max(0, min(shared, prompt - self._limits.rest))
        if shared == 0 or shared == held:
            return shared
        window = self._weights.sliding_window
        # the cells that the window needs may be gone
        if self._weights.rolls_back and (not window or first <= max(0, shared - window)):
            return shared
        return max((length for length in lengths if length <= shared), default=0)

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
