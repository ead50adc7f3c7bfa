"""Rotary angles against the formulas written out, for every form that genie_config.json has."""

import math
from typing import Any

import pytest

from geniex_runtimes.qairt.rope import Rope, RopeError, rope_of

LLAMA3 = {
    "rope-type": "llama3",
    "factor": 8.0,
    "low-freq-factor": 1.0,
    "high-freq-factor": 4.0,
    "original-max-position-embeddings": 8192,
}
LONG = {
    "rope-type": "longrope",
    "long-factor": [2.0, 4.0],
    "short-factor": [1.0, 1.5],
    "original-max-position-embeddings": 4096,
    "max-position-embeddings": 131072,
}


def config(described: dict[str, Any] | None, backend: dict[str, Any] | None = None) -> Any:
    model = {} if described is None else {"positional-encoding": described}
    return {"dialog": {"engine": {"model": model, "backend": {"QnnHtp": backend or {}}}}}


def made(described: dict[str, Any], width: int = 2, context: int = 512) -> Rope:
    return rope_of(config({"type": "rope", "rope-dim": width} | described), width, context)


@pytest.mark.parametrize(
    "described",
    [config({"rope-dim": 32}), config(None, {"pos-id-dim": 32})],
    ids=["of-the-model", "of-the-back-end"],
)
def test_a_width_that_is_not_the_graphs_is_refused(described: Any) -> None:
    with pytest.raises(RopeError, match=r"-dim` is 32, and the graphs take 2 frequencies"):
        rope_of(described, 2, 64)
    partial = config({"rope-dim": 32, "rope-scaling": {"rope-type": "partial"}})
    assert rope_of(partial, 2, 64).frequencies.shape == (2,)


@pytest.mark.parametrize(
    ("rope", "frequencies", "scale"),
    [
        pytest.param(rope_of(config(None), 2, 64), [1, 0.01], 1, id="nothing-said"),
        pytest.param(
            rope_of(config(None, {"rope-theta": 100}), 4, 64),
            [1, 100**-0.25, 0.1, 100**-0.75],
            1,
            id="of-the-back-end",
        ),
        pytest.param(made({"rope-theta": 400}), [1, 0.05], 1, id="of-the-model"),
        pytest.param(
            made({"rope-scaling": {"rope-type": "linear", "factor": 4}}),
            [0.25, 0.0025],
            1,
            id="linear",
        ),
        pytest.param(
            made({"rope-scaling": {"rope-type": "partial", "scale": 2}}),
            [1, 0.01],
            2,
            id="partial",
        ),
        pytest.param(
            made({"rope-scaling": LONG}),
            [1, 0.01 / 1.5],
            math.sqrt(1 + math.log(32) / math.log(4096)),
            id="longrope-short",
        ),
        pytest.param(
            made({"rope-scaling": LONG | {"factor": 1}}, context=8192),
            [0.5, 0.0025],
            1,
            id="longrope-long",
        ),
    ],
)
def test_frequencies(rope: Rope, frequencies: list[float], scale: float) -> None:
    assert rope.frequencies.tolist() == pytest.approx(frequencies)
    assert rope.scale == pytest.approx(scale)
    cos, sin = rope.turns(3, 2)
    for row, position in enumerate((3, 4)):
        angles = [position * one for one in frequencies]
        assert cos[row].tolist() == pytest.approx([scale * math.cos(one) for one in angles])
        assert sin[row].tolist() == pytest.approx([scale * math.sin(one) for one in angles])


def test_llama3_keeps_fast_divides_slow_and_mixes_between() -> None:
    rope = made({"rope-theta": 500000, "rope-scaling": LLAMA3}, 64)
    for at, found in enumerate(rope.frequencies.tolist()):
        plain = 500000.0 ** (-at / 64)
        length = 2 * math.pi / plain
        if length < 8192 / 4:
            expected = plain
        elif length > 8192:
            expected = plain / 8
        else:
            smooth = (8192 / length - 1) / (4 - 1)
            expected = (1 - smooth) * plain / 8 + smooth * plain
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        pytest.param({"type": "alibi"}, "encoding `alibi`", id="no-rope"),
        pytest.param({"rope-theta": 0}, "`rope-theta` is not a number above 0", id="theta"),
        pytest.param({"rope-theta": True}, "`rope-theta`", id="no-number"),
        pytest.param({"rope-scaling": {"rope-type": "qwen2vl-mrope"}}, "`qwen2vl-mrope`", id="new"),
        pytest.param({"rope-scaling": {"rope-type": "llama3"}}, "`factor`", id="llama3"),
        pytest.param(
            {"rope-scaling": LLAMA3 | {"low-freq-factor": 4.0}}, "not below", id="llama3-order"
        ),
        pytest.param(
            {"rope-scaling": LONG | {"short-factor": [1.0]}}, "list of 2 numbers", id="longrope"
        ),
    ],
)
def test_what_is_not_known_is_an_error_with_its_key(described: dict[str, Any], reason: str) -> None:
    with pytest.raises(RopeError) as caught:
        made(described)
    assert reason in str(caught.value)
