"""How many answers may be evaluated together so that each is what it would be alone.

On a CPU llama.cpp has other kernels for a few rows than for one, and some round differently:
repacked Q4_K from four rows on, K-quants of any kind from eight (tiling.py). Models that several
answers share are loaded without repacking where that lets more of them go together.
"""

import platform
from collections.abc import Container
from dataclasses import dataclass

from geniex_catalogue.gguf import GGUFHeader
from geniex_runtimes.llama_cpp import tiling
from geniex_runtimes.llama_cpp.context import BATCH_ROWS, CPU_ROWS, Context
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.speculative.exactness import exact_rows
from geniex_runtimes.options import LoadOptions

# going in smaller groups would cost more than it is worth
LEAST_TOGETHER = 4
_TRIED = 8
# ggml's numbers of Q2_K and Q4_K, which round differently once an x86 build has repacked them
_REPACKED_APART = frozenset({10, 12})
# Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K: tried out, a prompt's numbers are the same in parts of
# FINE_ROWS rows (a part of CPU_ROWS, and whole tiles of every kernel) as in parts of CPU_ROWS
_FINE = frozenset({2, 3, 6, 7, 8, *range(10, 15)})
FINE_ROWS = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The most `rows` of answers to evaluate together.

    No part of a prompt that is longer is evaluated with less than `rest` rows, and it may be cut at
    multiples of `cut`.
    """

    rows: int = BATCH_ROWS
    rest: int = 1
    cut: int = CPU_ROWS

    def share(self, rows: int) -> int:
        """How many of so many rows to evaluate at once: as many groups as must be, of one size."""
        groups = -(-rows // self.rows)
        return -(-rows // max(1, groups))

    def chunk(self, left: int, most: int) -> int:
        """How many of the `left` tokens of a prompt to evaluate now, at most `most`."""
        count = min(left, most)
        short = count > CPU_ROWS and 0 < count % CPU_ROWS < self.rest
        return count - self.rest if short or 0 < left - count < self.rest else count


def limits(
    library: Library, context: Context, vocab_size: int, header: GGUFHeader | None
) -> Limits:
    """How many rows go together, for answers on the slots of an empty CPU context.

    Where fewer than LEAST_TOGETHER are alike, as with float weights, it is as many as there are:
    going one by one would cost a multiple, and the difference is in the last digits.
    """
    slots = context.options.slots
    if not context.options.on_cpu:
        return Limits()
    rest = tiling.TILED_FROM if tiling.has_kernel(header) else 1
    tried = min(slots * context.options.outputs, _TRIED)
    alike = exact_rows(library, context, vocab_size, tried) if slots > 1 else tried
    cut = FINE_ROWS if _only(header, _FINE) else CPU_ROWS
    if alike == tried or alike < LEAST_TOGETHER:
        return Limits(rest=rest, cut=cut)
    return Limits(alike, rest, cut)


def repacking(header: GGUFHeader | None, options: LoadOptions) -> bool:
    """Whether to repack the weights, as far as that is allowed at all.

    Not where it would keep the answers of several slots apart: measured on x86, where a prompt is
    evaluated faster without it, and a single answer by a few hundredths more slowly.
    """
    several = options.compute == "cpu" and options.slots >= LEAST_TOGETHER
    return options.extra_buffers and not (several and _has(header, _REPACKED_APART))


def _has(header: GGUFHeader | None, kinds: Container[int]) -> bool:
    """Whether an x86 machine is to run a model with weights of these kinds."""
    if header is None or platform.machine().lower() not in tiling.X86:
        return False
    return any(tensor.type in kinds for tensor in header.tensors)


def _only(header: GGUFHeader | None, kinds: Container[int]) -> bool:
    """Whether all matrices of a model are of these kinds."""
    if header is None:
        return False
    return all(tensor.type in kinds for tensor in header.tensors if len(tensor.shape) > 1)
