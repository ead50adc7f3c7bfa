"""Several threads: a row's numbers beyond 256 cells are those of one thread, and of more rows."""

import sys
from pathlib import Path

import pytest

from geniex_runtimes.options import SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved

PROMPT = [2] + [300 + place * 7 % 200 for place in range(280)]
SPECULATION = SpeculativeOptions(types=("draft-mtp",), n_max=3, adapt=False, require=True)

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows does not export what switches it"
)


def numbers(toys: Path, threads: int, kv_type: str, *, drafted: bool = False) -> list[object]:
    draft = resolved(toys / "g4-markov-draft.gguf") if drafted else None
    options = {"threads": threads, "kv_type": kv_type, "draft": draft}
    if drafted:
        options["speculative"] = SPECULATION
    with load(toys / "g4-markov-target.gguf", **options) as model:
        result = answer(model, PROMPT, max_tokens=24, logprobs=2)
    assert bool(result.done.profile.draft_proposed) == drafted
    return list(result.logprobs)


@pytest.mark.parametrize("kv_type", ["f16", "f32", "q8_0"])
def test_neither_threads_nor_drafts_change_a_number(toys: Path, kv_type: str) -> None:
    alone = numbers(toys, 1, kv_type)
    assert numbers(toys, 2, kv_type) == alone
    assert numbers(toys, 2, kv_type, drafted=True) == alone
