"""The decode benchmark: what it compares, and when it is satisfied."""

from pathlib import Path

import pytest

from ci.benchmarks.child import Child
from ci.benchmarks.decode import (
    Difference,
    compare_tokens,
    report_identity,
    report_speed,
    shared_length,
)
from ci.benchmarks.players import Setting


@pytest.mark.parametrize(
    ("ours", "theirs", "shared"),
    [
        pytest.param((), (), 0, id="both-empty"),
        pytest.param((1, 2, 3), (1, 2, 3), 3, id="equal"),
        pytest.param((1, 2, 3), (1, 9, 3), 1, id="parted"),
        pytest.param((1, 2), (1, 2, 3), 2, id="one-ends-early"),
    ],
)
def test_shared_length(ours: tuple[int, ...], theirs: tuple[int, ...], shared: int) -> None:
    assert shared_length(ours, theirs) == shared


@pytest.mark.parametrize(
    ("pairs", "passed"),
    [
        pytest.param([(100.0, 100.0), (98.0, 100.0), (50.0, 100.0)], True, id="one-slow-round"),
        pytest.param([(97.0, 100.0), (97.0, 100.0), (200.0, 100.0)], False, id="one-fast-round"),
    ],
)
def test_the_median_round_decides(pairs: list[tuple[float, float]], passed: bool) -> None:
    assert report_speed(pairs) is passed


def test_one_difference_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_identity([])
    assert not report_identity([Difference("Once", 1, (5, 6), (5, 7))])
    assert "identity: 19 of 20" in capsys.readouterr().out


def test_a_player_answers_from_its_own_process(tiny_chat: Path) -> None:
    with Child("geniex", Setting(tiny_chat, threads=1, context=256)) as child:
        prompt = child.tokenize("The capital of Italy is")
        assert prompt[0] == 2
        answer = child.play(prompt, 8, with_tokens=True)
    assert answer.tokens
    assert answer.speed > 0


def test_a_player_that_dies_says_why(tmp_path: Path) -> None:
    missing = Setting(tmp_path / "missing.gguf", threads=1, context=256)
    with Child("geniex", missing) as child, pytest.raises(RuntimeError, match=r"missing\.gguf"):
        child.tokenize("x")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["smollm2", "gemma3"])
def test_greedy_tokens_are_those_of_llama_cpp_python(
    model: str, request: pytest.FixtureRequest
) -> None:
    setting = Setting(request.getfixturevalue(model), threads=1, context=256)
    with Child("geniex", setting) as ours, Child("llama-cpp-python", setting) as peer:
        assert compare_tokens(ours, peer, 24) == []
