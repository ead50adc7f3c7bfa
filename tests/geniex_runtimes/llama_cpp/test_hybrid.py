"""A model with recurrent layers: its state cannot be cut back, only continued or begun anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex_runtimes.contract import GenerationRequest
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from tests.geniex_runtimes.llama_cpp.answers import answer, load

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
