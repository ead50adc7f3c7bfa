"""How a tensor's elements stand for numbers: value = (element + offset) * scale, or as they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from geniex_runtimes.qairt.inspection import TensorFacts

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]

_MASKED_FLOAT = -1e4  # far below any score, and within the range of float16


@dataclass(frozen=True, slots=True)
class Encoding:
    """The elements' type, and scale and offset where they are whole numbers."""

    dtype: np.dtype[Any]
    scale: float = 1.0
    offset: int = 0

    @property
    def whole(self) -> bool:
        """Whether elements are whole numbers that stand for others."""
        return bool(np.issubdtype(self.dtype, np.integer))

    @property
    def zero(self) -> int:
        """The element that stands for 0."""
        return -self.offset if self.whole else 0

    @property
    def masked(self) -> float:
        """The element of an attention mask that keeps a token out of sight: the least there is."""
        return float(np.iinfo(self.dtype).min) if self.whole else _MASKED_FLOAT

    def cut(self, values: npt.NDArray[np.float64]) -> Array:
        """The elements for values, cut off towards zero.

        libGenie encodes rotary angles so, and graphs are calibrated with what it does.
        """
        if not self.whole:
            return values.astype(self.dtype)
        info = np.iinfo(self.dtype)
        cut = np.trunc(values / self.scale - self.offset)
        return np.clip(cut, info.min, info.max).astype(self.dtype)

    def decode(self, elements: Array) -> Floats:
        """The values of elements, in a new array."""
        values = elements.astype(np.float32)
        if self.whole:
            values += np.float32(self.offset)
            values *= np.float32(self.scale)
        return values


def encoding_of(tensor: TensorFacts) -> Encoding:
    """How a tensor is encoded. Raises ValueError for one whose elements cannot be told."""
    dtype = np.dtype(tensor.dtype)
    if np.issubdtype(dtype, np.floating):
        return Encoding(dtype)
    if tensor.scale is None or tensor.offset is None or not tensor.scale > 0:
        raise ValueError(f"`{tensor.name}` has elements of type {tensor.dtype} and no scale")
    return Encoding(dtype, tensor.scale, tensor.offset)
