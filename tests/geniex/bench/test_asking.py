"""Measured requests on a scripted model: what is asked, and what is made of the profiles."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from geniex.bench.asking import Asker
from geniex.bench.plan import Shape
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import EOS, FakeModel, FakeRuntime, Script
from geniex_runtimes.options import LoadOptions

T = TypeVar("T")
FOUR = Script(drafts=((3, 3), (3, 0)))


def at_once(call: Callable[[], T], on_interrupt: Callable[[], None] | None = None) -> T:
    """Run it here."""
    return call()


def load(*scripts: Script) -> FakeModel:
    """A scripted model."""
    path = Path("m.gguf")
    model = ResolvedModel("m", None, "gguf", path, (path,), None, 0)
    return FakeRuntime(*scripts).load(model, LoadOptions())


def test_a_prompt_is_evaluated_whole_even_if_it_is_known() -> None:
    model = load(FOUR)
    asker = Asker(model, at_once)
    first, again = (asker.sample(Shape(32), 4, seed=1) for _ in range(2))
    assert (first.cached, again.cached) == (0, 0)
    assert [one.reuse_prefix for one in model.requests] == [False, False]
    assert model.requests[0].prompt == model.requests[1].prompt
    assert first.answered == 4 and first.prefill_speed > 0 and first.ttft > 0


def test_what_is_there_before_the_prompt_is_not_evaluated_again() -> None:
    model = load(FOUR)
    found = Asker(model, at_once).sample(Shape(16, depth=64), 4, seed=1)
    before, asked = model.requests
    assert (len(before.prompt), before.max_tokens, before.reuse_prefix) == (64, 1, False)
    assert (len(asked.prompt), asked.max_tokens, asked.reuse_prefix) == (80, 4, True)
    assert found.cached == 64


def test_answers_at_once_have_texts_of_their_own() -> None:
    model = load(FOUR)
    found = Asker(model, at_once).sample(Shape(32, parallel=3), 4, seed=1)
    assert len({tuple(one.prompt) for one in model.requests}) == 3
    assert found.answered == 12 and found.total_speed > 0


def test_answers_are_greedy_and_end_tokens_can_be_held_back() -> None:
    model = load(FOUR)
    asker = Asker(model, at_once)
    asker.sample(Shape(8), 4, seed=1)
    asker.hold_back()
    asker.sample(Shape(8), 4, seed=1)
    free, held = (one.sampling for one in model.requests)
    assert (free.temperature, free.logit_bias) == (0, ())
    [(token, bias)] = held.logit_bias
    assert token == EOS and bias < -100


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_failure_is_passed_on(parallel: int) -> None:
    model = load(Script(error=GenerationError("decode failed"), error_after=1))
    with pytest.raises(GenerationError, match="decode failed"):
        Asker(model, at_once).sample(Shape(8, parallel=parallel), 4, seed=1)
