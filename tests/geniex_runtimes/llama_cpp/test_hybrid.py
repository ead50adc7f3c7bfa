"""A model with recurrent layers: its state cannot be cut back, only continued or begun anew."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex_runtimes import memory
from geniex_runtimes.contract import GenerationRequest
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.llama_cpp.slot import Task
from geniex_runtimes.options import SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved
from tests.toys import mamba

MODEL = Path(__file__).parents[2] / "data" / "models" / "q35-mix-q8.gguf"
PROMPT = [3, 5, 7, 9, 11, 13]


@pytest.fixture(scope="module")
def hybrid() -> Iterator[LlamaCppModel]:
    with load(MODEL) as model:
        yield model


def fresh(model: LlamaCppModel, prompt: list[int]) -> str:
    return answer(model, prompt, max_tokens=12, reuse_prefix=False).text


def test_a_continued_chat_is_reused(hybrid: LlamaCppModel) -> None:
    generation = answer(hybrid, PROMPT, max_tokens=12, logprobs=0)
    longer = [*PROMPT, *(entry.token for entry in generation.logprobs), 21, 22]
    result = answer(hybrid, longer, max_tokens=12)
    assert result.done.profile.cached_tokens == len(PROMPT) + 11
    assert result.text == fresh(hybrid, longer)


def test_a_chat_that_goes_back_begins_anew(hybrid: LlamaCppModel) -> None:
    answer(hybrid, PROMPT, max_tokens=12)
    changed = [*PROMPT[:4], 40, 41]
    result = answer(hybrid, changed, max_tokens=12)
    assert result.done.profile.cached_tokens == 0
    assert result.text == fresh(hybrid, changed)


def test_a_cancelled_prefill_leaves_nothing_behind(hybrid: LlamaCppModel) -> None:
    expected = fresh(hybrid, PROMPT)
    running = hybrid.generate(GenerationRequest([5] * 1000))
    running.close()
    assert answer(hybrid, PROMPT, max_tokens=12).text == expected


LONG = [5 + index * 7 % 200 for index in range(500)]


def test_a_chat_whose_answer_is_told_differently_goes_back_a_little(hybrid: LlamaCppModel) -> None:
    # as by templates that leave out what was thought
    answer(hybrid, LONG, max_tokens=12)
    differently = [*LONG[:-10], *range(300, 340)]
    result = answer(hybrid, differently, max_tokens=12)
    assert result.done.profile.cached_tokens == 420  # whole multiples of 60
    assert result.text == fresh(hybrid, differently)


def test_what_prompts_have_in_common_serves_a_third_one(hybrid: LlamaCppModel) -> None:
    prompts = [[*LONG[:310], *range(start, start + 200)] for start in (300, 200, 100)]
    cached = [answer(hybrid, it, max_tokens=4).done.profile.cached_tokens for it in prompts]
    assert cached[-1] == 300
    assert answer(hybrid, prompts[2], max_tokens=12).text == fresh(hybrid, prompts[2])


@pytest.mark.parametrize("kind", ["hybrid", "recurrent"])
def test_what_a_slot_keeps_was_estimated(tmp_path: Path, kind: str) -> None:
    path = MODEL if kind == "hybrid" else mamba.make(tmp_path / "mamba.gguf")
    with load(path, slots=1) as model:
        for first in range(200, 260, 10):
            answer(model, [*LONG[:310], *range(first, first + 200)], max_tokens=4)
        (slot,) = model._engine._seating.slots
        sizes = [len(part.state) for part in slot.parts]
    estimate = memory.need(resolved(path), 512)
    one = estimate.states / (1 + memory.KEPT_STATES)
    assert 1 <= len(sizes) <= memory.KEPT_STATES
    assert sizes == pytest.approx([one] * len(sizes), rel=0.02)
    assert estimate.slot == estimate.kv + estimate.states


@pytest.mark.parametrize("adapt", [True, False])
def test_it_goes_back_beside_speculation(toys: Path, adapt: bool) -> None:
    options = SpeculativeOptions(("draft-mtp",), adapt=adapt, require=True)
    differently = [*LONG[:-10], *range(300, 340)]
    with load(toys / "q35-mix.gguf", speculative=options) as model:
        answer(model, LONG, max_tokens=12)
        result = answer(model, differently, max_tokens=24)
        assert result.done.profile.cached_tokens == 420
    with load(toys / "q35-mix.gguf") as model:
        assert result.text == fresh_long(model, differently)


def fresh_long(model: LlamaCppModel, prompt: list[int]) -> str:
    return answer(model, prompt, max_tokens=24, reuse_prefix=False).text


def test_a_request_that_comes_as_its_neighbour_is_stopped_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stop was meant for a task alone; a decode of both would lose the state of both."""
    with load(MODEL, slots=2) as model:
        expected = fresh(model, PROMPT)
        engine = model._engine
        seating = engine._seating
        assign = seating.assign

        def stopped_meanwhile(waiting: deque[Task]) -> None:
            if waiting and (first := seating.slots[0].task or seating.slots[1].task):
                engine.cancel(first)
            assign(waiting)

        running = model.generate(GenerationRequest([5] * 20, max_tokens=900))
        next(iter(running))
        monkeypatch.setattr(seating, "assign", stopped_meanwhile)
        assert answer(model, PROMPT, max_tokens=12, reuse_prefix=False).text == expected
        running.close()
