"""One chat's state in a file of its own: brought back when its model is loaded, written at the end.

Whatever is wrong with the file, the chat is evaluated anew and it is said why.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from geniex_runtimes.llama_cpp import prefix_file, sequence_state
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.keeping import BEFORE_ANSWER, Usable, snapshot
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.prefix_file import ForeignError, Head, UnfitError
from geniex_runtimes.llama_cpp.slot import Part, Slot, Task

log = logging.getLogger("geniex.llama_cpp.kept")


class KeptSession:
    """Keeps the chat that was asked last. See seating.Keeper for when it is called."""

    def __init__(
        self,
        library: Library,
        context: Context,
        path: Path,
        facts: Mapping[str, str],
        window: int,
    ) -> None:
        """Bring back what the file holds, as the first slot's; `failure` says why that is not.

        `window` is the model's sliding window in tokens, 0 for none.
        """
        self._window = window
        self._library = library
        self._context = context
        self._path = path
        self._facts = facts
        self.tokens: list[int] = []
        self.parts: tuple[Part, ...] = ()
        self.failure = ""
        self._foreign = False
        try:
            self.tokens = self._restored()
        except FileNotFoundError:
            return
        except (UnfitError, OSError, MemoryError) as exc:
            self._foreign = isinstance(exc, ForeignError)
            self.failure = getattr(exc, "strerror", None) or str(exc)
            log.debug("`%s` is not used: %s", path, exc)

    def _restored(self) -> list[int]:
        head = prefix_file.read_head(self._path)
        head.check(self._facts)
        if len(head.tokens) > self._context.length:
            raise UnfitError(
                f"its {len(head.tokens)} tokens are more than the context of {self._context.length}"
            )
        kept = prefix_file.read(head)
        if not sequence_state.restore(self._library, self._context, 0, kept.state):
            raise UnfitError(f"llama.cpp does not take it: {self._library.complaints()}")
        self.parts = tuple(Part(length, state) for length, state in kept.parts)
        return [int(token) for token in head.tokens]

    def timed(self, task: Task) -> None:
        """Nothing: a session is brought back in any case."""

    def find(self, prompt: Sequence[int], held: int, usable: Usable) -> Head | None:
        """Nothing: what there is was brought back at the start."""
        return None

    def restore(self, slot: Slot, head: Head) -> bool:
        """Never called, as nothing is found."""
        raise NotImplementedError

    def common(self, prompt: Sequence[int]) -> int:
        """Nothing: there is one chat."""
        return 0

    def give_up(self, slot: Slot, held: int, *, cuts: bool) -> None:
        """Nothing: a session is what was asked last."""

    def end(self, slots: Sequence[Slot], *, cuts: bool) -> None:
        """Write what the slot holds that was used last."""
        slot = max(slots, key=lambda slot: slot.used)
        if not slot.tokens or slot.tokens == self.tokens:
            return
        if self._foreign:
            log.warning("the session is not kept: `%s` is something else", self._path)
            return
        lengths = [] if cuts else [slot.asked - BEFORE_ANSWER]
        kept = snapshot(self._library, self._context, slot, lengths, window=self._window)
        if kept is None:
            return
        try:
            prefix_file.write(self._path, self._facts, kept)
        except OSError as exc:
            log.warning("the session is not kept in `%s`: %s", self._path, exc.strerror or exc)
