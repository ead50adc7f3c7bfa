"""The rotary angles of positions, as genie_config.json describes them.

The formulas are those of `modeling_rope_utils` in the package transformers, which the exporters of
bundles use: default, linear, llama3, longrope; `partial` turns the first part of each head alone,
which the width of the graphs' inputs tells.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_THETA = 10000.0
# how many frequencies a head has: of the back end, and of the model's positional encoding
_WIDTHS = ("pos-id-dim", "rope-dim")


class RopeError(ValueError):
    """Raised for a description that is incomplete or not known; the text says which key."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Angles grow by `frequencies` per position; cosine and sine are multiplied by `scale`."""

    frequencies: Doubles
    scale: float = 1.0

    def turns(self, start: int, count: int) -> tuple[Doubles, Doubles]:
        """Cosine and sine for `count` positions from `start`, a row for each."""
        angles = np.arange(start, start + count, dtype=np.float64)[:, None] * self.frequencies
        return np.cos(angles) * self.scale, np.sin(angles) * self.scale


def rope_of(config: Mapping[str, Any], width: int, context_length: int) -> Rope:
    """The angles that `width` frequencies a head need, by genie_config.json. Raises RopeError."""
    engine = _section(_section(config, "dialog"), "engine")
    described = _section(_section(engine, "model"), "positional-encoding")
    if not described:
        described = _section(_section(engine, "backend"), "QnnHtp")
    elif (kind := described.get("type", "rope")) != "rope":
        raise RopeError(f"the positional encoding `{kind}` is not supported")
    _check_width(described, width)
    theta = _number(described, "rope-theta", _THETA)
    frequencies = theta ** (-np.arange(width, dtype=np.float64) / width)
    scaling = _section(described, "rope-scaling")
    match scaling.get("rope-type", "default"):
        case "default":
            return Rope(frequencies)
        case "linear":
            return Rope(frequencies / _number(scaling, "factor", 1.0))
        case "partial":
            return Rope(frequencies, _number(scaling, "scale", 1.0))
        case "llama3":
            return Rope(_llama3(frequencies, scaling))
        case "longrope":
            return _longrope(frequencies, scaling, context_length)
        case other:
            raise RopeError(f"the rotary scaling `{other}` is not supported")


def _check_width(described: Mapping[str, Any], width: int) -> None:
    """The frequencies that are stated have to be those that the graphs take."""
    if _section(described, "rope-scaling").get("rope-type") == "partial":
        return  # the graphs take fewer than a head has, which may be what is stated
    for key in _WIDTHS:
        stated = described.get(key)
        if stated is not None and stated != width:
            raise RopeError(f"`{key}` is {stated!r:.40}, and the graphs take {width} frequencies")


def _llama3(frequencies: Doubles, scaling: Mapping[str, Any]) -> Doubles:
    """Slow frequencies are divided by the factor, fast ones stay, those between are mixed."""
    factor = _number(scaling, "factor")
    low, high = _number(scaling, "low-freq-factor"), _number(scaling, "high-freq-factor")
    trained = _number(scaling, "original-max-position-embeddings")
    if not low < high:
        raise RopeError("`low-freq-factor` is not below `high-freq-factor`")
    turns = trained * frequencies / (2 * math.pi)  # within the context of the training
    mix = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return frequencies * (mix + (1 - mix) / factor)


def _longrope(frequencies: Doubles, scaling: Mapping[str, Any], context_length: int) -> Rope:
    """Each frequency has a divisor of its own, one for short contexts and one for long ones."""
    trained = _number(scaling, "original-max-position-embeddings")
    key = "long-factor" if context_length > trained else "short-factor"
    divisors = scaling.get(key)
    if not isinstance(divisors, list) or len(divisors) != len(frequencies):
        raise RopeError(f"`{key}` is not a list of {len(frequencies)} numbers")
    if "factor" in scaling:
        factor = _number(scaling, "factor")
    else:
        factor = _number(scaling, "max-position-embeddings") / trained
    scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    return Rope(frequencies / np.array(divisors, np.float64), scale)


def _section(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(values: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise RopeError(f"`{key}` is not a number above 0")
    return float(value)
