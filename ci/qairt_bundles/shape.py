"""The dimensions of the tiny decoder."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers of a small llama: layers, widths, heads."""

    vocabulary: int = 512
    width: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 16
    mlp: int = 160
    rope_theta: float = 10000.0
    epsilon: float = 1e-5


SHAPE = Shape()
