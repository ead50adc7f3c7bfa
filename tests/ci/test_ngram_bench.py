"""The benchmark of copied drafts: what it plays, and when it is satisfied."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ci.benchmarks import ngram
from ci.benchmarks.players import loaded
from geniex_runtimes.options import SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, turn


@pytest.mark.parametrize(
    ("ratios", "worst", "passed"),
    [
        pytest.param((1.2, 1.9), False, True, id="the-mean-counts"),
        pytest.param((1.2, 1.8), False, False, id="the-mean-is-too-low"),
        pytest.param((1.4, 1.9), True, False, id="the-worst-counts"),
        pytest.param((1.9, None), False, False, id="a-text-differs"),
    ],
)
def test_the_verdict(ratios: Sequence[float | None], worst: bool, passed: bool) -> None:
    assert ngram.report("x", ratios, 1.5, worst=worst) is passed


def test_both_ways_give_one_text(tiny_chat: Path) -> None:
    wanted = SpeculativeOptions(("ngram-simple",), n_max=7, adapt=False)
    with loaded(tiny_chat, threads=1, context=512, speculative=wanted) as model:
        owl = turn("Tell me about the owl.")
        prompt = f"{owl}{answer(model, owl).text}<turn|>\n{owl}"
        plain, drafted = (ngram.play(model, prompt, 40, drafts=drafts) for drafts in (False, True))
    assert plain.text == drafted.text and plain.tokens == drafted.tokens > 0
    assert plain.proposed == 0 < drafted.proposed
    assert plain.wall > 0 and drafted.wall > 0
