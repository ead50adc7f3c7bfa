"""Drafters in a row: the first proposal counts, and all of them follow."""

from collections.abc import Sequence

from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Drafter, Rows
from geniex_runtimes.llama_cpp.speculative.ngram import NgramSimple
from geniex_runtimes.llama_cpp.speculative.sequence import DrafterSequence


class Scripted:
    """Proposes what it is told per slot, keeps at most `keeps` tokens, and writes down calls."""

    def __init__(self, name: str, proposals: dict[int, list[int]], keeps: int = 1000) -> None:
        self.name = name
        self._proposals = proposals
        self._keeps = keeps
        self.calls: list[tuple[object, ...]] = []

    def begin(self, slot: int, kept: int) -> int:
        self.calls.append(("begin", slot, kept))
        return min(kept, self._keeps)

    def adopt(self, slot: int, tokens: Sequence[int]) -> None:
        self.calls.append(("adopt", slot, *tokens))

    def process(self, rows: Sequence[Rows]) -> None:
        self.calls.append(("process", *(some.slot for some in rows)))

    def draft(self, asks: Sequence[Ask]) -> list[list[int]]:
        self.calls.append(("draft", *(ask.slot for ask in asks)))
        return [self._proposals.get(ask.slot, []) for ask in asks]

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        self.calls.append(("accept", slot, accepted))

    def pause(self) -> None:
        self.calls.append(("pause",))

    def resume(self) -> None:
        self.calls.append(("resume",))

    def close(self) -> None:
        self.calls.append(("close",))


def ask(slot: int) -> Ask:
    return Ask(slot, [1, 2, 3], 4, 3, 0.0)


def test_the_sequence_is_a_drafter() -> None:
    drafter: Drafter = DrafterSequence([NgramSimple(), Scripted("other", {})])
    assert drafter.name == "ngram-simple,other"


def test_the_first_proposal_counts_slot_by_slot() -> None:
    first = Scripted("first", {1: [10]})
    second = Scripted("second", {0: [20], 1: [21]})
    third = Scripted("third", {0: [30], 2: [32]})
    drafter = DrafterSequence([first, second, third])
    assert drafter.draft([ask(2), ask(1), ask(0)]) == [[32], [10], [20]]
    assert [each.calls for each in (first, second, third)] == [
        [("draft", 2, 1, 0)],
        [("draft", 2, 0)],
        [("draft", 2)],
    ]


def test_nobody_is_asked_once_every_slot_has_a_proposal() -> None:
    later = Scripted("later", {})
    assert DrafterSequence([Scripted("first", {0: [1]}), later]).draft([ask(0)]) == [[1]]
    assert later.calls == []


def test_no_proposal_at_all_is_empty() -> None:
    assert DrafterSequence([Scripted("a", {}), Scripted("b", {})]).draft([ask(0)]) == [[]]


def test_a_task_begins_where_the_one_that_keeps_least_can() -> None:
    forgetful = Scripted("forgetful", {}, keeps=5)
    faithful = Scripted("faithful", {})
    assert DrafterSequence([faithful, forgetful]).begin(3, 9) == 5
    assert faithful.calls[-1] == ("begin", 3, 5)


def test_all_follow_whoever_proposed() -> None:
    both = [Scripted("a", {0: [1]}), Scripted("b", {0: [2]})]
    drafter = DrafterSequence(both)
    verified = Rows(0, 0, 3, [4, 1])
    drafter.draft([ask(0)])
    drafter.process([verified])
    drafter.accept(0, verified, 1)
    drafter.close()
    for each in both:
        assert each.calls[-3:] == [("process", 0), ("accept", 0, 1), ("close",)]


def test_all_pause_and_resume() -> None:
    first, second = Scripted("first", {}), Scripted("second", {})
    sequence = DrafterSequence([first, second])
    sequence.pause()
    sequence.resume()
    assert first.calls == second.calls == [("pause",), ("resume",)]
