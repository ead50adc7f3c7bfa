"""The sampler, against the same chain written out with plain numbers."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex_runtimes.errors import GenerationError
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt.sampler import Floats, Sampler, logprob

ROW = (2.0, 1.0, 1.0, -0.5, 0.25, -3.0, 1.75, 0.0)
DRAWS = 1200
OPEN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 5}


def floats(values: Sequence[float]) -> Floats:
    return np.array(values, np.float32)


def written_out(
    row: Sequence[float], options: SamplingOptions, before: Sequence[int]
) -> list[float]:
    """Each token's probability; `before` is an empty prompt's answer so far."""
    logits = list(row)
    for token, value in options.logit_bias:
        logits[token] += value
    for token in set(before[-64:]):
        repetition = options.repetition_penalty or 1.0
        logits[token] *= repetition if logits[token] <= 0 else 1 / repetition
    for token, count in Counter(before).items():
        logits[token] -= count * options.frequency_penalty + options.presence_penalty
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    order = order[: options.top_k or len(order)]
    weights = {token: math.exp(logits[token]) for token in order}
    kept, mass = [], 0.0
    for token in order:
        kept.append(token)
        mass += weights[token] / sum(weights.values())
        if options.top_p is not None and options.top_p < 1 and mass >= options.top_p:
            break
    least = weights[order[0]] * (options.min_p or 0.0)
    kept = [token for token in kept if weights[token] >= least]
    peak = logits[order[0]]
    heat = {token: math.exp((logits[token] - peak) / (options.temperature or 1)) for token in kept}
    return [heat.get(token, 0.0) / sum(heat.values()) for token in range(len(logits))]


CHAINS = [
    pytest.param({}, (), id="nothing"),
    pytest.param({"temperature": 0.5}, (), id="cold"),
    pytest.param({"temperature": 3.0}, (), id="hot"),
    pytest.param({"top_k": 3}, (), id="top-k"),
    pytest.param({"top_k": 2}, (), id="top-k-and-its-equal"),
    pytest.param({"top_k": 100}, (), id="top-k-of-more-than-there-are"),
    pytest.param({"top_p": 0.6}, (), id="top-p"),
    pytest.param({"top_p": 0.0}, (), id="top-p-of-nothing"),
    pytest.param({"min_p": 0.3}, (), id="min-p"),
    pytest.param({"min_p": 1.0}, (), id="min-p-of-all"),
    pytest.param({"top_k": 5, "top_p": 0.8, "min_p": 0.2, "temperature": 1.4}, (), id="all-cuts"),
    pytest.param({"logit_bias": ((5, 6.0), (0, -100.0))}, (), id="bias"),
    pytest.param({"repetition_penalty": 1.7}, (0, 5, 0), id="repetition"),
    pytest.param({"repetition_penalty": 2.0}, (1, *[2] * 64), id="repetition-looks-back-64"),
    pytest.param({"presence_penalty": 1.5}, (0, 0, 3), id="presence"),
    pytest.param({"frequency_penalty": 0.5}, (0, 0, 3), id="frequency"),
    pytest.param({"frequency_penalty": 0.01}, (1, *[2] * 99), id="frequency-looks-back-for-ever"),
    pytest.param(
        {"repetition_penalty": 1.3, "presence_penalty": -0.5, "logit_bias": ((2, 1.0),)},
        (2, 4),
        id="one-after-another",
    ),
]


@pytest.mark.parametrize(("values", "before"), CHAINS)
def test_tokens_come_as_often_as_written_out(
    values: dict[str, Any], before: tuple[int, ...]
) -> None:
    options = SamplingOptions(**(OPEN | values))
    row = floats(ROW)
    sampler = Sampler(options, ())
    for token in before:  # as if it had drawn them
        sampler._recent.append(token)
        sampler._counts[token] = sampler._counts.get(token, 0) + 1
    drawn: Counter[int | None] = Counter()
    for _ in range(DRAWS):
        recent, counts = sampler._recent.copy(), sampler._counts.copy()
        drawn[sampler.sample(row)] += 1
        sampler._recent, sampler._counts = recent, counts
    expected = written_out(ROW, options, before)
    assert {token for token, share in enumerate(expected) if share == 0}.isdisjoint(drawn)
    assert [drawn[token] / DRAWS for token in range(len(ROW))] == pytest.approx(expected, abs=0.045)
    assert row.tolist() == list(ROW), "the row is the model's"


@settings(max_examples=60, deadline=None)
@given(
    row=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40),
    values=st.fixed_dictionaries(
        {
            "top_k": st.integers(0, 45),
            "top_p": st.floats(0, 1),
            "min_p": st.floats(0, 1),
            "temperature": st.floats(1e-3, 5),
            "seed": st.integers(),
        }
    ),
)
def test_nothing_is_drawn_that_was_cut_away(row: list[float], values: dict[str, Any]) -> None:
    options = SamplingOptions(**values)
    shares = written_out([value / 10 for value in row], options, ())
    sampler = Sampler(options, ())
    row32 = floats([value / 10 for value in row])
    drawn = {sampler.sample(row32) for _ in range(5)}
    # a rounding may move the last token of a nucleus
    assert sum(token is None or shares[token] == 0 for token in drawn) <= 1


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_greedy_is_the_first_of_the_highest(temperature: float) -> None:
    sampler = Sampler(SamplingOptions(temperature=temperature), ())
    assert sampler.plain
    assert sampler.sample(floats([1.0, 3.0, 3.0, 2.0])) == 1


def test_greedy_with_penalties_and_bias() -> None:
    options = SamplingOptions(temperature=0, presence_penalty=1.0, logit_bias=((2, 0.5), (99, 9.0)))
    sampler = Sampler(options, (0, 0, 0))
    row = floats([3.0, 2.25, 2.0])
    assert [sampler.sample(row) for _ in range(4)] == [0, 2, 1, 0]


def test_the_prompt_counts_for_repetition_and_for_nothing_else() -> None:
    row = floats([3.0, 2.0])
    repetition = SamplingOptions(temperature=0, repetition_penalty=2.0)
    assert Sampler(repetition, (0,)).sample(row) == 1
    assert Sampler(repetition, (0, *[5] * 63)).sample(row) == 1
    assert Sampler(repetition, (0, *[5] * 64)).sample(row) == 0
    assert Sampler(repetition, (0,)).sample(floats([-1.0, -1.5])) == 1, "farther below 0"
    presence = SamplingOptions(temperature=0, presence_penalty=2.0, frequency_penalty=2.0)
    assert Sampler(presence, (0,)).sample(row) == 0


def drawn(seed: int | None, count: int = 40) -> list[int | None]:
    sampler = Sampler(SamplingOptions(**(OPEN | {"seed": seed})), ())
    return [sampler.sample(floats(ROW)) for _ in range(count)]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**64, 2**200, -1, -(2**70)])
def test_a_seed_of_any_size_gives_the_same_draws(seed: int) -> None:
    assert drawn(seed) == drawn(seed)
    assert drawn(seed) != drawn(seed + 1)


def test_no_seed_is_random() -> None:
    assert len({tuple(drawn(None)) for _ in range(4)}) == 4


def test_a_seed_is_the_same_in_every_process_and_on_every_machine() -> None:
    assert drawn(7, 6) == [0, 6, 7, 2, 6, 1]


class Digits:
    """A grammar that takes the tokens 3 and 5 alone, and remembers what it was asked."""

    def __init__(self, allowed: Sequence[int] = (3, 5)) -> None:
        self.permitted = allowed
        self.masks = 0
        self.taken: list[int] = []

    def allows(self, token: int) -> bool:
        return token in self.permitted

    def allowed(self, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        self.masks += 1
        return np.isin(np.arange(size), self.permitted)

    def accept(self, token: int) -> None:
        self.taken.append(token)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_takes_what_it_allows(temperature: float) -> None:
    digits = Digits()
    sampler = Sampler(SamplingOptions(**(OPEN | {"temperature": temperature})), (), digits)
    tokens = [sampler.sample(floats(ROW)) for _ in range(50)]
    assert set(tokens) <= {3, 5} and digits.taken == tokens
    assert digits.masks > 0


def test_a_grammar_asks_for_the_whole_row_only_where_the_drawn_token_fails() -> None:
    digits = Digits((0,))
    sampler = Sampler(SamplingOptions(temperature=0), (), digits)
    assert sampler.sample(floats(ROW)) == 0 and digits.masks == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_that_allows_nothing_ends_it(temperature: float) -> None:
    sampler = Sampler(SamplingOptions(**(OPEN | {"temperature": temperature})), (), Digits(()))
    assert sampler.sample(floats(ROW)) is None


@pytest.mark.parametrize("values", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.9}])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(values: dict[str, Any], bad: float) -> None:
    sampler = Sampler(SamplingOptions(**values), ())
    with pytest.raises(GenerationError, match="no numbers"):
        sampler.sample(floats([1.0, bad, 0.0]))


def test_a_cold_draw_does_not_overflow() -> None:
    options = SamplingOptions(**(OPEN | {"temperature": 1e-300}))
    assert Sampler(options, ()).sample(floats(ROW)) == 0


@pytest.mark.parametrize("top_p", [0.5, 0.999, 1.0])
def test_a_flat_row_of_a_big_vocabulary(top_p: float) -> None:
    """More tokens are needed than are looked at first."""
    options = SamplingOptions(**(OPEN | {"top_p": top_p}))
    sampler = Sampler(options, ())
    row = np.zeros(10_000, np.float32)
    tokens = [sampler.sample(row) for _ in range(20)]
    assert all(token is not None and token < 10_000 * top_p + 1 for token in tokens)
    assert len(set(tokens)) > 15


def test_logprobs_are_of_the_model_and_in_order() -> None:
    total = math.log(sum(math.exp(value) for value in ROW))
    entry = logprob(floats(ROW), 5, 4, lambda token: b"%d" % token)
    assert (entry.token, entry.data) == (5, b"5")
    assert entry.logprob == pytest.approx(ROW[5] - total)
    assert [(one.token, one.data) for one in entry.top] == [
        (0, b"0"),
        (6, b"6"),
        (1, b"1"),
        (2, b"2"),
    ]
    assert [one.logprob for one in entry.top] == pytest.approx(
        [ROW[t] - total for t in (0, 6, 1, 2)]
    )
    assert logprob(floats(ROW), 5, 0, lambda _: b"").top == ()
    whole = logprob(floats(ROW), 0, 99, lambda _: b"").top
    assert sum(math.exp(one.logprob) for one in whole) == pytest.approx(1)
