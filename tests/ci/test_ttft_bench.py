"""The benchmark of the first token: what it asks, reads, and is satisfied with."""

import time

import pytest

from ci.benchmarks import ttft
from ci.benchmarks.ttft import Round


def test_a_stream_is_read_up_to_its_first_word() -> None:
    lines = [
        b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n',
        b": ping\n",
        b'data: {"choices":[{"delta":{"content":"He"}}],"usage":null}\n',
        b'data: {"choices":[{"delta":{"content":"llo"}}]}\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":9,'
        b'"prompt_tokens_details":{"cached_tokens":7}}}\n',
        b"data: [DONE]\n",
    ]
    begin = time.perf_counter() - 1
    first = ttft.read_events("x", begin, iter(lines))
    assert (first.text, first.prompt, first.cached) == ("Hello", 9, 7)
    assert 1 <= first.seconds < 30


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(b'data: {"error":{"message":"it broke"}}\n', "it broke", id="error"),
        pytest.param(b'data: {"choices":[{"delta":{}}]}\n', "said nothing", id="nothing"),
    ],
)
def test_a_stream_without_a_word_is_an_error(line: bytes, told: str) -> None:
    with pytest.raises(RuntimeError, match=told):
        ttft.read_events("x", 0.0, iter([line]))


def test_a_chat_has_four_turns_that_no_other_chat_has() -> None:
    one, other = ttft.history(1, 40), ttft.history(2, 40)
    assert [message["role"] for message in one] == ["user", "assistant"] * 3 + ["user"]
    assert not {message["content"] for message in one if message["role"] == "user"} & {
        message["content"] for message in other
    }
    assert one[0]["content"][:7] != other[0]["content"][:7]
    assert [message["role"] for message in ttft.fifth(one, "yes")][-2:] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("waits", "passed"),
    [
        pytest.param([(1.0, 0.05, 0.1), (1.0, 0.05, 0.1), (1.0, 0.9, 0.9)], True, id="one-slow"),
        pytest.param([(1.0, 0.11, 0.1)], False, id="warm-too-slow"),
        pytest.param([(1.0, 0.1, 0.21)], False, id="restart-too-slow"),
        pytest.param([(1.0, 0.1, 0.2)], True, id="just-enough"),
    ],
)
def test_the_medians_decide(
    waits: list[tuple[float, float, float]], passed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ttft.report([Round(*one) for one in waits], "a model") is passed
    assert f"verdict: {'passed' if passed else 'FAILED'}: a model" in capsys.readouterr().out


def test_the_peer_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ttft.report([Round(1.0, 0.1, 0.1, peer=0.05)], "a model")
    assert "against the peer's warm wait: 2.000" in capsys.readouterr().out
