"""Which prefixes are kept on disk, and when one is brought back. Runs on the engine's thread."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from geniex_runtimes.llama_cpp import sequence_state
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.kept_prefixes import KeptPrefixes
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.prefix_file import Head, Snapshot, tokens_of
from geniex_runtimes.llama_cpp.slot import Part, Slot, Task

log = logging.getLogger("geniex.llama_cpp.kept")

# tokens: what is shorter is evaluated in no time, and not worth a file
LEAST = 256
# tokens before a prompt's end from which the next prompt of a chat differs at most: how templates
# begin an answer is not how they tell it afterwards
BEFORE_ANSWER = 32
_LEAST_TIMED = 32  # tokens: a shorter prompt tells little of how fast they are
# seconds that a token of a prompt is believed to take, until one was evaluated: on a fast machine
_PACE = 1e-3
# bytes per second, until one has been read: a SATA disk's
_READING = 300e6
# of the memory that is free, the most that a copy of a state may take for a moment
_SHARE = 0.5

_Keep: TypeAlias = Callable[[Snapshot, Sequence[Path]], None]


class Usable(Protocol):
    """How much of a prompt of `prompt` tokens need not be evaluated; see Seating."""

    def __call__(
        self, held: int, shared: int, first: int, prompt: int, lengths: Sequence[int] = ()
    ) -> int:
        """The tokens that can stay of `held`, of which `shared` are the prompt's."""
        ...


class Keeping:
    """Takes what slots give up to a folder, and fetches it."""

    def __init__(
        self, library: Library, context: Context, folder: KeptPrefixes, window: int
    ) -> None:
        """`window` is the model's sliding window in tokens, 0 for none."""
        self.tokens: list[int] = []
        self.parts: tuple[Part, ...] = ()
        self._window = window
        self._library = library
        self._context = context
        self._folder = folder
        self._reading = _READING
        self._pace = 0.0  # seconds that a token of a prompt took lately

    def timed(self, task: Task) -> None:
        """A task has ended: note how fast its prompt was."""
        count = len(task.prompt) - task.cached
        if task.first_token and count >= _LEAST_TIMED and not task.restored:
            self._pace = (task.first_token - task.started) / count

    def find(self, prompt: Sequence[int], held: int, usable: Usable) -> Head | None:
        """A file that saves more time than reading it takes, where a slot holds `held` tokens."""
        if len(prompt) < LEAST:
            return None

        def worth(head: Head, shared: int) -> float:
            """Seconds that are saved."""
            lengths = [length for length, _ in head.parts]
            gain = usable(len(head.tokens), shared, head.first, len(prompt), lengths) - held
            return gain * (self._pace or head.pace or _PACE) - head.size / self._reading

        return self._folder.find(tokens_of(prompt), worth)

    def restore(self, slot: Slot, head: Head) -> bool:
        """Fill a slot from a file; where that fails it is empty."""
        began = time.perf_counter()
        slot.tokens = []
        kept = self._folder.read(head)
        if kept is None:
            self._context.keep(slot.index, 0)
            return False
        if not sequence_state.restore(self._library, self._context, slot.index, kept.state):
            self._folder.refuse(head, f"llama.cpp does not take it: {self._library.complaints()}")
            return False
        took = time.perf_counter() - began
        self._reading = head.size / max(took, 1e-6)
        self._pace = self._pace or head.pace
        slot.tokens = [int(token) for token in head.tokens]
        slot.parts = tuple(Part(length, state) for length, state in kept.parts)
        log.debug("%d tokens were read in %.3f s", len(slot.tokens), took)
        return True

    def common(self, prompt: Sequence[int]) -> int:
        """How many first tokens of a prompt a file has that goes on differently."""
        return self._folder.common(tokens_of(prompt)) if len(prompt) >= LEAST else 0

    def give_up(self, slot: Slot, held: int, *, cuts: bool) -> None:
        """A slot is to have its first `held` tokens alone: keep the others where they are many.

        Where a state `cuts`, its file serves all prompts that share its beginning, and takes the
        place of shorter ones. Else it has parts that serve what most likely comes.
        """
        if len(slot.tokens) - held >= LEAST:
            self._keep(slot, held, cuts, self._folder.keep)

    def end(self, slots: Sequence[Slot], *, cuts: bool) -> None:
        """The engine ends: keep what the slots hold, the longest first."""
        self._folder.close()
        for slot in sorted(slots, key=lambda slot: -len(slot.tokens)):
            self._keep(slot, 0, cuts, self._folder.write)

    def _keep(self, slot: Slot, held: int, cuts: bool, keep: _Keep) -> None:
        """Keep what a slot holds, unless it is short, or kept already."""
        tokens = tokens_of(slot.tokens)
        if len(tokens) < LEAST or self._folder.has(tokens, cuts=cuts):
            return
        wanted = [] if cuts else [slot.common, slot.asked - BEFORE_ANSWER]
        lengths = [length for length in wanted if length >= max(held, LEAST)]
        kept = snapshot(
            self._library, self._context, slot, lengths, window=self._window, pace=self._pace
        )
        if kept is not None:
            keep(kept, self._folder.within(tokens) if cuts else ())


def snapshot(
    library: Library,
    context: Context,
    slot: Slot,
    lengths: Sequence[int],
    *,
    window: int,
    pace: float = 0.0,
) -> Snapshot | None:
    """A copy of what a slot holds; None, with a line in the log, where there can be none.

    To have the parts that other `lengths` need the slot is cut back to the shortest of these.
    `window` is the model's sliding window in tokens, `pace` the seconds a token of a prompt takes.
    """
    size = sequence_state.size(library, context, slot.index)
    if size > _free_memory() * _SHARE:
        log.warning("%d tokens are not kept: there is no memory for a copy", len(slot.tokens))
        return None
    state = sequence_state.save(library, context, slot.index) if size else None
    if state is None:
        log.warning("the state of this model cannot be saved: %s", library.complaints())
        return None
    # llama.cpp saves no cells that lie before a sliding window
    first = max(context.first_position(slot.index), len(slot.tokens) - window if window else 0)
    tokens = tokens_of(slot.tokens)
    parts = _parts(context, slot, lengths, window)
    return Snapshot(tokens, state, first, pace, tuple((it.length, it.state) for it in parts))


def _parts(context: Context, slot: Slot, lengths: Sequence[int], window: int) -> list[Part]:
    """What to restore at these lengths, as far as the slot still has it, and what it was given."""
    parts = {part.length: part for part in slot.parts if part.length < len(slot.tokens)}
    first = context.first_position(slot.index)
    for length in sorted(set(lengths) - parts.keys(), reverse=True):
        there = window and 0 < length < len(slot.tokens) and first <= max(0, length - window)
        if there and context.keep(slot.index, length):
            slot.tokens = slot.tokens[:length]
            parts[length] = Part(length, context.save(slot.index))
    return list(parts.values())


def _free_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().available)
