"""How many answers may be evaluated together so that each is what it would be alone.

On a CPU llama.cpp has other kernels for a few rows than for one, and some round differently:
repacked Q4_K from four rows on, K-quants of any kind from eight (docs/threads.md). Models that
several answers share are loaded without repacking where that lets more of them go together.
"""

import platform

from geniex_catalogue.gguf import GGUFHeader
from geniex_runtimes.contract import LoadOptions
from geniex_runtimes.llama_cpp.context import BATCH_ROWS, Context
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.speculative.exactness import exact_rows

# going in smaller groups would cost more than it is worth
LEAST_TOGETHER = 4
_TRIED = 8
# ggml's numbers of Q2_K and Q4_K, which round differently once an x86 build has repacked them
_REPACKED_APART = frozenset({10, 12})
_X86 = frozenset({"x86_64", "amd64"})


def together(library: Library, context: Context, vocab_size: int) -> int:
    """The most rows to evaluate together, for answers on the slots of an empty CPU context.

    Where fewer than LEAST_TOGETHER are alike, as with float weights, it is as many as there are:
    going one by one would cost a multiple, and the difference is in the last digits.
    """
    slots = context.options.slots
    if slots == 1 or not context.options.on_cpu:
        return BATCH_ROWS
    tried = min(slots * context.options.outputs, _TRIED)
    alike = exact_rows(library, context, vocab_size, tried)
    return alike if LEAST_TOGETHER <= alike < tried else BATCH_ROWS


def repacking(header: GGUFHeader | None, options: LoadOptions) -> bool:
    """Whether to repack the weights, as far as that is allowed at all.

    Not where it would keep the answers of several slots apart: measured on x86, where a prompt is
    evaluated faster without it, and a single answer by a few hundredths more slowly.
    """
    several = options.compute == "cpu" and options.slots >= LEAST_TOGETHER
    if not several or header is None or platform.machine().lower() not in _X86:
        return options.extra_buffers
    apart = any(tensor.type in _REPACKED_APART for tensor in header.tensors)
    return options.extra_buffers and not apart
