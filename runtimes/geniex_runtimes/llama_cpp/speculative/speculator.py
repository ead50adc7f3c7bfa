"""Between the engine and its drafter: whom to draft for, how much, and what came of it."""

import time
from collections.abc import Sequence

from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.slot import Slot, Task
from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Drafter, Rows


class Speculator:
    """Serves every slot of an engine with one drafter. Belongs to the engine's thread."""

    def __init__(self, drafter: Drafter, n_max: int, context: Context | None = None) -> None:
        """`n_max` is the most draft tokens that the target has room for in a step.

        `context` is the drafter's own, where it has one.
        """
        self._drafter = drafter
        self._context = context
        self._n_max = n_max
        self._rows: dict[int, Rows] = {}
        self._drafted = 0.0
        self._draft_seconds = 0.0
        self._verify_seconds = 0.0

    def begin(self, slot: Slot, task: Task, kept: int) -> int:
        """A task starts; return how many of the `kept` tokens the drafter can do with."""
        if task.speculative.types:
            task.tally.state = "on"
        return self._drafter.begin(slot.index, kept)

    def propose(self, slots: Sequence[Slot], length: int) -> None:
        """Set the drafts of slots that are answering, in a context of `length` tokens per slot."""
        started = time.perf_counter()
        asks: list[Ask] = []
        asking: list[tuple[Slot, Task]] = []
        for slot in slots:
            slot.draft = []
            task = slot.task
            if task is None or not task.speculative.types:
                continue
            wanted = min(task.speculative.n_max, self._n_max)
            room = length - len(slot.tokens) - 1
            if task.max_tokens is not None:
                room = min(room, task.max_tokens - task.generated - 1)
            if min(wanted, room) > 0:
                asks.append(
                    Ask(
                        slot.index,
                        slot.tokens,
                        slot.last,
                        min(wanted, room),
                        task.speculative.p_min,
                    )
                )
                asking.append((slot, task))
        if asks:
            for (slot, task), draft in zip(asking, self._drafter.draft(asks), strict=True):
                if len(draft) >= task.speculative.n_min:
                    slot.draft = draft
        self._drafted = time.perf_counter()
        self._draft_seconds = self._drafted - started

    def process(self, rows: Sequence[Rows]) -> None:
        """Follow a decode of the target."""
        self._verify_seconds = time.perf_counter() - self._drafted
        self._drafter.process(rows)
        self._rows = {one.slot: one for one in rows}

    def settle(self, slot: Slot, task: Task, accepted: int) -> None:
        """A slot's draft has been verified and `accepted` of its tokens stay."""
        task.tally.count(len(slot.draft), accepted)
        task.tally.draft_time += self._draft_seconds
        task.tally.verify_time += self._verify_seconds
        self._drafter.accept(slot.index, self._rows[slot.index], accepted)

    def use_threads(self, threads: int) -> None:
        """Use so many CPU threads for drafting."""
        if self._context is not None:
            self._context.use_threads(threads)

    def close(self) -> None:
        """Free the drafter."""
        self._drafter.close()
