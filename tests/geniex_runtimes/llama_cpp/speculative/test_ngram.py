"""Drafts copied from the context, compared with a search through all of it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Drafter, Rows
from geniex_runtimes.llama_cpp.speculative.ngram import NgramMapK, NgramSimple
from geniex_runtimes.llama_cpp.speculative.ngram_mod import NgramMod

TOKEN = st.integers(0, 2)
TEXT = st.lists(TOKEN, max_size=12)
# small, so that the tests are quick; large enough that no two runs of three tokens share a place
PLACES = 65_521


def ask(tokens: list[int], last: int, n_max: int = 3, slot: int = 0) -> Ask:
    return Ask(slot, tokens, last, n_max, 0.0)


def proposal(drafter: Drafter, text: str, n_max: int = 3) -> str:
    """What is proposed behind a text whose letters are the tokens."""
    tokens = [ord(letter) for letter in text]
    drafter.begin(0, 0)
    drafter.process([Rows(0, 0, 0, tokens[:-1])])
    (found,) = drafter.draft([ask(tokens[:-1], tokens[-1], n_max)])
    return "".join(chr(token) for token in found)


@pytest.mark.parametrize(
    ("text", "n_max", "expected"),
    [
        pytest.param("the cat sat. the ", 3, "cat", id="what followed"),
        pytest.param("abcX abcY abc", 1, "Y", id="the latest occurrence"),
        pytest.param("abcde xyz abc", 9, "de xyz abc"[:9], id="up to the limit"),
        pytest.param("xabcabc", 7, "abcabca", id="a period goes on"),
        pytest.param("aaaa", 3, "aaa", id="the last token follows itself"),
        pytest.param("abcdef", 3, "", id="nothing was there"),
        pytest.param("ab", 3, "", id="shorter than a run"),
        pytest.param("abc", 3, "", id="the run is not its own occurrence"),
    ],
)
def test_what_followed_is_proposed(text: str, n_max: int, expected: str) -> None:
    assert proposal(NgramSimple(size=3), text, n_max) == expected
    assert proposal(NgramMapK(size=3), text, n_max) == expected


@pytest.mark.parametrize(
    ("text", "hits", "expected"),
    [
        pytest.param("abcX abc", 2, "", id="one is too few"),
        pytest.param("abcX abcY abc", 2, "Y ", id="two are enough"),
        pytest.param("abcX abcY abc", 3, "", id="the run itself does not count"),
    ],
)
def test_a_run_must_have_been_seen_often_enough(text: str, hits: int, expected: str) -> None:
    assert proposal(NgramMapK(size=3, min_hits=hits), text, 2) == expected


def test_a_rejected_proposal_is_shorter_the_next_time() -> None:
    drafter = NgramMapK(size=2)
    tokens, last = [1, 2, 3, 4, 5, 6, 1], 2
    assert drafter.draft([ask(tokens, last)]) == [[3, 4, 5]]
    verified = Rows(0, 0, len(tokens), [last, 3, 4, 5])
    drafter.process([verified])
    drafter.accept(0, verified, 0)
    tokens += [2, 9, 1]
    assert drafter.draft([ask(tokens, 2)]) == [[9]]
    verified = Rows(0, 0, len(tokens), [2, 9])
    drafter.process([verified])
    drafter.accept(0, verified, 1)
    tokens += [2, 9, 7, 1]
    assert drafter.draft([ask(tokens, 2)]) == [[9, 7]], "it grows again by what was accepted"
    drafter.begin(0, 0)
    assert drafter.draft([ask([1, 2, 3, 4, 5, 6, 1], 2)]) == [[3, 4, 5]], "a new answer is free"


def test_another_drafters_rejected_proposal_teaches_nothing() -> None:
    drafter = NgramMapK(size=2)
    tokens = [1, 2, 3, 4, 1]
    drafter.draft([ask(tokens, 2)])
    drafter.accept(0, Rows(0, 0, 5, [2, 8, 8]), 0)
    assert drafter.draft([ask(tokens, 2)]) == [[3, 4, 1]]


def test_one_slot_learns_from_another_through_the_table() -> None:
    drafter = NgramMod(size=3, places=PLACES)
    drafter.draft([ask([1, 2, 3, 4, 5, 6], 7, slot=0)])
    assert drafter.draft([ask([9, 1, 2], 3, slot=1)]) == [[4, 5, 6]]
    assert drafter.draft([ask([9, 2, 3], 4, slot=2)]) == [[5, 6]], "the table ends there"


def test_a_token_that_was_rejected_is_never_learnt() -> None:
    drafter = NgramMod(size=2, places=PLACES)
    drafter.begin(0, 0)
    drafter.process([Rows(0, 0, 0, [1, 2, 3])])
    drafter.process([Rows(0, 0, 3, [4, 5, 6])])  # 5 and 6 were a draft, 7 came instead
    drafter.process([Rows(0, 0, 4, [7])])
    drafter.draft([ask([1, 2, 3, 4, 7], 3)])
    assert drafter.draft([ask([8, 3], 4, slot=1)]) == [[7]]
    assert drafter.draft([ask([8, 4], 5, slot=2)]) == [[]]


def test_a_full_table_starts_again() -> None:
    drafter = NgramMod(size=2, places=11)
    drafter.draft([ask([1, 2, 3, 4, 5, 6, 7], 8)])
    assert drafter.draft([ask([5, 1], 2, slot=1)]) != [[]]
    drafter.begin(0, 0)
    assert drafter.draft([ask([1], 2, slot=1)]) == [[]]


@pytest.mark.parametrize(
    ("written", "resume", "expected"),
    [
        pytest.param("rig fox", 3, " ran", id="a word for another"),
        pytest.param("rig ared fox", 3, " ran", id="a word more"),
        pytest.param("r fox", 3, " ran", id="a word less"),
        pytest.param("rat", 3, "", id="something else"),
        pytest.param("rig fox", 0, "", id="never"),
    ],
)
def test_a_copy_that_broke_off_goes_on_behind_the_change(
    written: str, resume: int, expected: str
) -> None:
    drafter = NgramSimple(size=8, resume=resume)
    past = [ord(letter) for letter in "so. the red fox ran home. so. the "]
    drafter.begin(0, 0)
    (draft,) = drafter.draft([ask(past[:-1], past[-1], 9)])
    assert "".join(map(chr, draft)) == "red fox r"
    verified = Rows(0, 0, len(past) - 1, [past[-1], *draft])
    drafter.process([verified])
    drafter.accept(0, verified, 1)
    tokens = [*past, *(ord(letter) for letter in written)]
    (found,) = drafter.draft([ask(tokens[:-1], tokens[-1], 4)])
    assert "".join(map(chr, found)) == expected


@dataclass
class Truth:
    """One slot as the engine knows it, and what a search through it would propose."""

    slot: int
    size: int
    tokens: list[int] = field(default_factory=list)
    last: int = 0
    learnt: int = 0
    limits: dict[tuple[int, ...], int] = field(default_factory=dict)

    def run(self) -> tuple[int, ...]:
        return (*self.tokens, self.last)[-self.size :]

    def simple(self, n_max: int, hits: int = 1) -> list[int]:
        text = [*self.tokens, self.last]
        starts = [
            start
            for start in range(len(text) - self.size)
            if tuple(text[start : start + self.size]) == self.run()
        ]
        if len(starts) < hits:
            return []
        first = starts[-1] + self.size
        for _ in range(n_max):
            text.append(text[first])
            first += 1
        return text[len(self.tokens) + 1 :]

    def learn(self, table: dict[tuple[int, ...], int], certain: int) -> None:
        while self.learnt + self.size < certain:
            run = tuple(self.tokens[self.learnt : self.learnt + self.size])
            table[run] = self.tokens[self.learnt + self.size]
            self.learnt += 1

    def chained(self, table: dict[tuple[int, ...], int], n_max: int) -> list[int]:
        if len(self.tokens) < self.size:
            return []
        text = list(self.run())
        while len(text) < self.size + n_max and tuple(text[-self.size :]) in table:
            text.append(table[tuple(text[-self.size :])])
        return text[self.size :]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_every_draft_is_what_a_search_would_find(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 3), "size")
    hits = data.draw(st.integers(1, 2), "hits")
    table: dict[tuple[int, ...], int] = {}
    simple, mapped = NgramSimple(size=size, resume=0), NgramMapK(size=size, min_hits=hits)
    modular = NgramMod(size=size, places=PLACES)
    drafters: list[Drafter] = [simple, mapped, modular]
    truths = [Truth(slot, size) for slot in range(2)]

    def evaluate(truth: Truth, tokens: list[int]) -> Rows:
        rows = Rows(truth.slot, 0, len(truth.tokens), tokens)
        for drafter in drafters:
            drafter.process([rows])
        truth.learn(table, len(truth.tokens))
        return rows

    def begin(truth: Truth) -> None:
        kept = data.draw(st.integers(0, len(truth.tokens)), "kept")
        truth.tokens = truth.tokens[:kept]
        truth.learnt = min(truth.learnt, max(0, kept - size))
        truth.limits = {}
        for drafter in drafters:
            assert drafter.begin(truth.slot, kept) == kept
        for chunk in data.draw(st.lists(TEXT.filter(bool), max_size=3), "prompt"):
            evaluate(truth, chunk)
            truth.tokens += chunk
        truth.last = data.draw(TOKEN, "last")

    def step(truth: Truth) -> None:
        n_max = data.draw(st.integers(1, 6), "n_max")
        request = ask(truth.tokens, truth.last, n_max, truth.slot)
        found = [drafter.draft([request])[0] for drafter in drafters]
        truth.learn(table, len(truth.tokens))
        limit = min(n_max, truth.limits.get(truth.run(), n_max))
        assert found[0] == truth.simple(n_max)
        assert found[1] == truth.simple(limit, hits)
        assert found[2] == truth.chained(table, n_max)
        draft = data.draw(st.sampled_from([*found, []]), "draft")
        accepted = data.draw(st.integers(0, len(draft)), "accepted")
        verified = evaluate(truth, [truth.last, *draft])
        for drafter in drafters:
            drafter.accept(truth.slot, verified, accepted)
        run = truth.run()
        if draft and draft == found[1][: len(draft)]:
            if accepted < len(draft):
                truth.limits[run] = accepted + 1
            elif run in truth.limits:
                truth.limits[run] = max(truth.limits[run], accepted + 1)
        truth.tokens += [truth.last, *draft[:accepted]]
        truth.last = data.draw(TOKEN, "next")

    for truth in truths:
        begin(truth)
    for _ in range(data.draw(st.integers(1, 12), "steps")):
        truth = data.draw(st.sampled_from(truths), "slot")
        action = data.draw(st.sampled_from([begin, step, step, step]), "action")
        action(truth)


@given(TEXT, TOKEN, TEXT, TOKEN)
def test_a_context_that_changed_untold_is_found_out(
    before: list[int], last: int, after: list[int], then: int
) -> None:
    drafter = NgramSimple(size=2)
    drafter.draft([ask(before, last)])
    truth = Truth(0, 2, after, then)
    assert drafter.draft([ask(after, then)]) == [truth.simple(3)]
