"""A toy of Mamba's kind: nothing but recurrent layers, with random weights."""

from pathlib import Path

import numpy as np

from tests.toys.toyfile import ToyFile
from tests.toys.vocabulary import vocabulary

_HIDDEN, _INNER, _STATE, _RANK, _CONVOLVED, _BLOCKS = 64, 128, 16, 4, 4, 2


def make(path: Path) -> Path:
    """Write the file; returns its path."""
    dice = np.random.default_rng(1)

    def some(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (dice.standard_normal(shape) * 0.3).astype(np.float32)

    words = vocabulary()
    with ToyFile(path, "mamba") as file:
        file.facts(
            {
                "context_length": 8192,
                "embedding_length": _HIDDEN,
                "feed_forward_length": 0,
                "block_count": _BLOCKS,
                "attention.head_count": 0,
                "attention.layer_norm_rms_epsilon": 1e-5,
                "ssm.conv_kernel": _CONVOLVED,
                "ssm.inner_size": _INNER,
                "ssm.state_size": _STATE,
                "ssm.time_step_rank": _RANK,
            }
        )
        file.vocabulary(words)
        file.matrix("token_embd", some(words.size, _HIDDEN))
        file.matrix("output", some(words.size, _HIDDEN))
        file.vector("output_norm", np.ones(_HIDDEN))
        for block in range(_BLOCKS):
            name = f"blk.{block}."
            file.vector(f"{name}attn_norm", np.ones(_HIDDEN))
            file.matrix(f"{name}ssm_in", some(2 * _INNER, _HIDDEN))
            file.vector(f"{name}ssm_conv1d", some(_INNER, _CONVOLVED))
            file.vector(f"{name}ssm_conv1d", np.zeros(_INNER), ".bias")
            file.matrix(f"{name}ssm_x", some(_RANK + 2 * _STATE, _INNER))
            file.vector(f"{name}ssm_dt", some(_INNER, _RANK))
            file.vector(f"{name}ssm_dt", np.full(_INNER, -2.0), ".bias")
            file.vector(f"{name}ssm_a", -0.1 - np.abs(some(_INNER, _STATE)), "")
            file.vector(f"{name}ssm_d", np.ones(_INNER), "")
            file.matrix(f"{name}ssm_out", some(_HIDDEN, _INNER))
    return path
