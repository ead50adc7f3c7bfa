"""The committed weights: 8-bit matrices with a scale each, 16-bit embedding and norms."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"
WEIGHTS, TOKENIZER = "weights.npz", "tokenizer.json"

Floats = NDArray[np.float32]


def is_matrix(name: str) -> bool:
    """Whether a weight is multiplied with, which is done in 8 bits."""
    return name != "embedding" and not name.endswith("norm")


def round_weight(name: str, values: Floats) -> tuple[NDArray[np.generic], np.float32]:
    """A weight as it is stored, and the scale that gives it back."""
    if not is_matrix(name):
        return values.astype(np.float16), np.float32(1)
    scale = np.float32(max(float(np.abs(values).max()), 1e-6) / 127)
    return np.clip(np.round(values / scale), -127, 127).astype(np.int8), scale


def save(weights: Mapping[str, Floats], folder: Path) -> int:
    """Write the weights; the answer is the size of the file in bytes."""
    stored: dict[str, NDArray[np.generic]] = {}
    for name, values in weights.items():
        stored[name], scale = round_weight(name, values)
        stored[f"{name}.scale"] = np.asarray(scale)
    path = folder / WEIGHTS
    np.savez_compressed(path, allow_pickle=False, **stored)
    return path.stat().st_size


def load(folder: Path = DATA) -> dict[str, Floats]:
    """The weights as floats, in the values that 8 bits can hold."""
    with np.load(folder / WEIGHTS) as stored:
        return {
            name: stored[name].astype(np.float32) * stored[f"{name}.scale"]
            for name in stored.files
            if not name.endswith(".scale")
        }
