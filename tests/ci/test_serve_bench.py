"""The benchmark of many clients: what it reads, and when it is satisfied."""

from dataclasses import replace

import pytest

from ci.benchmarks import serve
from ci.benchmarks.serve import Round, Streamed

ROUND = Round((Streamed("a", 50), Streamed("b", 50)), 1.0, costs=(0.012, 0.018), alone=60.0)


def rounds(*seconds: float) -> list[Round]:
    return [replace(ROUND, seconds=one) for one in seconds]


def test_a_stream_is_read() -> None:
    lines = [
        b": ping\n",
        b'data: {"choices":[{"text":"Hel"}],"usage":null}\n',
        b'data: {"choices":[{"text":"lo"}]}\n',
        b'data: {"choices":[],"usage":{"completion_tokens":7}}\n',
        b"data: [DONE]\n",
    ]
    assert serve.read_events("x", lines) == Streamed("Hello", 7)
    with pytest.raises(RuntimeError, match="it broke"):
        serve.read_events("x", [b'data: {"error":{"message":"it broke"}}\n'])


def test_gaps_are_between_chunks_with_text() -> None:
    text = b'data: {"choices":[{"index":0,"text":"a"}]}\n\n'
    end = b'data: {"choices":[{"index":0,"text":""}]}\n\n'
    pieces = [(1.0, text + text[:20]), (1.5, text[20:]), (2.5, text), (4.0, b": ping\n\n" + end)]
    assert serve.gaps_of(pieces) == (0.5, 1.0)
    assert Round((Streamed("", 3, (0.5, 1.0)), Streamed("", 1)), 1.0).gap == 0.5


@pytest.mark.parametrize(("gap", "passed"), [(1.1, True), (1.3, False)])
def test_the_median_of_gaps_decides(gap: float, passed: bool) -> None:
    mine, theirs = ([Round((Streamed("", 2, (one,)),), 1.0)] * 3 for one in (gap, 1.0))
    assert serve.report_gaps(mine, theirs) is passed


def test_all_streams_count() -> None:
    assert ROUND.speed == 100.0


@pytest.mark.parametrize(
    ("seconds", "passed"),
    [
        pytest.param((1.0, 1.02, 3.0), True, id="one-slow-round"),
        pytest.param((1.2, 1.2, 0.5), False, id="one-fast-round"),
        pytest.param((1.02, 1.02, 1.02), True, id="two-clients-may-be-a-little-slower"),
    ],
)
def test_the_median_against_the_peer_decides(seconds: tuple[float, ...], passed: bool) -> None:
    assert serve.report_peer(rounds(*seconds), rounds(*(1.0 for _ in seconds))) is passed


@pytest.mark.parametrize(("seconds", "passed"), [(1.0, True), (1.1, False)])
def test_the_ceiling_is_what_rows_cost(
    seconds: float, passed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    # two rows in 18 ms: 111 tokens per second at most
    assert serve.report_ceiling(rounds(seconds), 2) is passed
    assert "at most 111.1 tok/s, 1.33 times one row's" in capsys.readouterr().out


def test_prompts_differ_within_a_round_and_between_rounds() -> None:
    prompts = [text for number in range(-1, 20) for text in serve.prompts_of(12, number)]
    assert len(set(prompts)) == len(prompts)
