"""Whether the memory for contexts is there, before any is taken.

Weights are mapped from their file: where they do not fit they are read again and again, which is
slow and works. What a context needs has no file behind it: a system that has promised more than it
has ends some process when it is used, and mostly that is this one.
"""

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import memory
from geniex_runtimes.errors import MemoryBudgetError
from geniex_runtimes.hardware import cgroup, ram, sources
from geniex_runtimes.options import LoadOptions

# tokens of all slots together that llama.cpp can count
MOST_CELLS = 2**31 - 1
_STEP = 256


def check(model: ResolvedModel, options: LoadOptions) -> None:
    """Raise MemoryBudgetError for contexts that the machine has no memory for just now.

    Devices with memory of their own refuse by themselves, with an error.
    """
    length = options.context_length
    if length is None or options.embedding or options.compute not in ("cpu", "npu"):
        return
    free = free_memory()
    if not free:
        return
    needed = _needed(model, options, length)
    if needed <= free and length * options.slots <= MOST_CELLS:
        return
    fits = _longest(model, options, free)
    several = f" for each of {options.slots} answers side by side" if options.slots > 1 else ""
    raise MemoryBudgetError(
        model.name,
        needed,
        free,
        hint=f"that is beside the weights, for a context of {length} tokens{several}; "
        + (f"`--nctx {fits}` would fit" if fits else "free some memory first"),
    )


def holds_copies(model: ResolvedModel, options: LoadOptions) -> bool:
    """Whether there is memory for weights that are rearranged, and so no longer mapped."""
    free = free_memory()
    if not free:
        return True
    length = options.context_length or memory.DEFAULT_CONTEXT
    return memory.need(model, 0).weights + _needed(model, options, length) <= free


def free_memory() -> int:
    """Bytes that may be had: free, or swapped out for; 0 where the system does not say."""
    here = sources.this_machine()
    try:
        limits = cgroup.read(here)
    except (ValueError, OSError):
        limits = cgroup.Limits()
    (_, free), _ = ram.probe(here, limits)
    return free + _swap() if free else 0


def _swap() -> int:
    import psutil

    try:
        return int(psutil.swap_memory().free)
    except (OSError, RuntimeError):
        return 0


def _needed(model: ResolvedModel, options: LoadOptions, length: int) -> int:
    """Bytes of the contexts of all slots, of a draft's too."""
    total = 0
    for one, kind in ((model, options.kv_type), (options.draft, None)):
        if one is not None:
            need = memory.need(one, length, kind)
            total += need.slot * options.slots + need.work
    return total


def _longest(model: ResolvedModel, options: LoadOptions, free: int) -> int:
    """The longest context that fits, in steps; 0 for none."""
    low, high = 0, min(options.context_length or 0, MOST_CELLS // options.slots) // _STEP
    while low < high:
        middle = (low + high + 1) // 2
        if _needed(model, options, middle * _STEP) <= free:
            low = middle
        else:
            high = middle - 1
    return low * _STEP
