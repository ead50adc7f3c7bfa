"""What a step costs on this machine, measured when a model is loaded with speculation."""

import time
from collections.abc import Callable

import numpy as np

from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import BATCH_ROWS, Context
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.speculative.costs import Costs
from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Drafter, Rows

_PROMPT = 8  # tokens that the drafter sees before it drafts
_DEEP = 240
_TINY = 0.003  # seconds of a decode
_QUICK = 0.02  # seconds: what is quicker is measured several times, the best counts
_TIMES = 5
_TIMED_ROWS = (1, 2, 4, 7, 8, 12, 16)


def measure(library: Library, context: Context, drafter: Drafter, n_max: int, token: int) -> Costs:
    """Time decodes of 1 to n_max + 1 rows and drafts of 1 and n_max tokens on the first slot.

    `token` fills the rows. Context and drafter are left empty. Raises as their calls do.
    """
    batch = Batch(library, BATCH_ROWS)
    position = 0

    def decode(count: int) -> float:
        nonlocal position
        if position + count > context.length:
            context.clear()
            position = 0
        batch.clear()
        batch.add(0, position, [token] * count, all_logits=count <= n_max + 1)
        started = time.perf_counter()
        context.decode(batch)
        position += count
        return time.perf_counter() - started

    context.clear()
    most_rows = min(n_max + 1, context.length)
    if _best(decode, 1) < _TINY and context.length >= 2 * _DEEP:
        decode(_DEEP)  # where a model is this small, what is in the context counts
    rows = [_best(decode, count) for count in range(1, most_rows + 1)]
    drafts = [0.0] * n_max
    known = [token] * min(_PROMPT, context.length - n_max - 1)
    if known:
        context.clear()
        drafter.begin(0, 0)
        batch.clear()
        batch.add(0, 0, known, all_logits=False)
        context.decode(batch)
        drafter.process([Rows(0, 0, 0, known)])

        def draft(count: int) -> float:
            drafter.begin(0, len(known))  # what an earlier draft left behind it
            started = time.perf_counter()
            drafter.draft([Ask(0, known, token, count, 0.0)])
            return time.perf_counter() - started

        one, most = _best(draft, 1), _best(draft, n_max)
        drafts = [one + (most - one) * place / max(1, n_max - 1) for place in range(n_max)]
    drafter.begin(0, 0)
    context.clear()
    return Costs(rows, drafts)


def measure_rows(library: Library, context: Context, n_max: int, token: int) -> Costs:
    """Time decodes of up to n_max + 1 rows, for drafts that cost nothing; as `measure` else.

    A few numbers of rows are timed and those between are on the lines from one to the next: the
    drafts may be long, and a large model takes seconds for all of them.
    """
    batch = Batch(library, BATCH_ROWS)
    most = min(n_max + 1, context.length)

    def decode(count: int) -> float:
        context.clear()
        batch.clear()
        batch.add(0, 0, [token] * count, all_logits=True)
        started = time.perf_counter()
        context.decode(batch)
        return time.perf_counter() - started

    timed = sorted({count for count in _TIMED_ROWS if count < most} | {1, most})
    seconds = [_best(decode, count) for count in timed]
    context.clear()
    rows = np.interp(range(1, most + 1), timed, seconds)
    return Costs([float(one) for one in rows], [0.0] * n_max)


def _best(run: Callable[[int], float], count: int) -> float:
    best = float("inf")
    for _ in range(_TIMES):
        best = min(best, run(count))
        if best > _QUICK:
            break
    return best
