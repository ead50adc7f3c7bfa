"""What a drafter is: it proposes tokens, and follows what the target has evaluated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Ask:
    """A request for one slot's draft.

    `tokens` are those whose cells the target holds, `last` the sampled token that has none yet.
    At most `n_max` tokens are wanted; a model stops where its confidence falls below `p_min`.
    """

    slot: int
    tokens: Sequence[int]
    last: int
    n_max: int
    p_min: float


@dataclass(slots=True)
class Rows:
    """Rows of one slot in the batch that the target has just evaluated, contiguous.

    `first` is the batch row of the first, `start` its position, `tokens` what they were.
    """

    slot: int
    first: int
    start: int
    tokens: Sequence[int]


class Drafter(Protocol):
    """Belongs to the engine's thread, like the context it drafts for."""

    name: str

    def begin(self, slot: int, kept: int) -> int:
        """A task starts on a slot whose first `kept` tokens stay; return how many may stay.

        Fewer where the drafter needs to see tokens that it has missed.
        """
        ...

    def adopt(self, slot: int, tokens: Sequence[int]) -> None:
        """The target's cells of a slot now hold `tokens`, from a file and not by decodes."""
        ...

    def process(self, rows: Sequence[Rows]) -> None:
        """Follow a decode of the target; called after every one, before its logits are used."""
        ...

    def draft(self, asks: Sequence[Ask]) -> list[list[int]]:
        """Propose tokens for each slot asked for, in that order; an empty list is no proposal."""
        ...

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        """Of the verified rows the first stays, and `accepted` draft tokens behind it."""
        ...

    def pause(self) -> None:
        """Nobody drafts for a while: stop following the target where that costs anything."""
        ...

    def resume(self) -> None:
        """Follow the target again; a draft is possible after its next decode."""
        ...

    def close(self) -> None:
        """Free what it holds; a second call does nothing."""
        ...
