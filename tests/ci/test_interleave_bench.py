"""The benchmark of a long prompt beside answers: its ratios, a round, and when it is content."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from ci.benchmarks import interleave
from ci.benchmarks.interleave import Round
from ci.benchmarks.players import loaded

ROUND = Round(before=2.0, before_tokens=100, beside=10.0, beside_tokens=350, alone=4.0)


def test_both_are_speeds_to_what_they_are_without_the_other() -> None:
    assert ROUND.kept == pytest.approx(0.7)
    assert ROUND.prefill == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("tokens", "alone", "passed"),
    [
        pytest.param(350, 4.0, True, id="fair"),
        pytest.param(250, 4.0, False, id="the-answers-starve"),
        pytest.param(350, 2.0, False, id="the-prompt-starves"),
    ],
)
def test_neither_may_starve(tokens: int, alone: float, passed: bool) -> None:
    rounds = [ROUND, *[replace(ROUND, beside_tokens=tokens, alone=alone)] * 2]
    assert interleave.report(rounds) is passed


def test_a_round_counts_tokens_before_and_beside(
    tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleave, "BEFORE", 0.02)
    monkeypatch.setattr(interleave, "VOCABULARY", 400)
    args = argparse.Namespace(answers=1, prompt_tokens=200)
    with loaded(tiny_chat, threads=1, context=8192, slots=2) as model:
        one = interleave.play(model, args, 0)
    assert one.before >= 0.02 and one.beside > 0 and one.alone > 0
    assert one.before_tokens > 0
