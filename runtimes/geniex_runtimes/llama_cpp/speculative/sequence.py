"""Several drafters in a row: for each slot the first that proposes anything counts."""

from collections.abc import Sequence

from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Drafter, Rows


class DrafterSequence:
    """Tries its drafters in the order given (that of `types.ORDER`), at every step and slot.

    A later drafter is not asked where an earlier one proposed; all of them follow the target, and
    all are told what was accepted, whoever proposed it.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = tuple(drafters)
        self.name = ",".join(drafter.name for drafter in self._drafters)

    def begin(self, slot: int, kept: int) -> int:
        """See `Drafter.begin`: as many stay as every drafter can keep."""
        while True:
            may = min((drafter.begin(slot, kept) for drafter in self._drafters), default=kept)
            if may == kept:
                return kept
            kept = may  # the others go back as far as the one that can keep least

    def adopt(self, slot: int, tokens: Sequence[int]) -> None:
        """See `Drafter.adopt`."""
        for drafter in self._drafters:
            drafter.adopt(slot, tokens)

    def process(self, rows: Sequence[Rows]) -> None:
        """See `Drafter.process`."""
        for drafter in self._drafters:
            drafter.process(rows)

    def draft(self, asks: Sequence[Ask]) -> list[list[int]]:
        """See `Drafter.draft`."""
        proposals: list[list[int]] = [[] for _ in asks]
        still = list(range(len(asks)))
        for drafter in self._drafters:
            if not still:
                break
            found = drafter.draft([asks[index] for index in still])
            for index, proposal in zip(still, found, strict=True):
                proposals[index] = proposal
            still = [index for index in still if not proposals[index]]
        return proposals

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        """See `Drafter.accept`."""
        for drafter in self._drafters:
            drafter.accept(slot, verified, accepted)

    def pause(self) -> None:
        """See `Drafter.pause`."""
        for drafter in self._drafters:
            drafter.pause()

    def resume(self) -> None:
        """See `Drafter.resume`."""
        for drafter in self._drafters:
            drafter.resume()

    def close(self) -> None:
        """See `Drafter.close`."""
        for drafter in self._drafters:
            drafter.close()
