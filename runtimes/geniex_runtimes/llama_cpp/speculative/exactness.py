"""How many rows a decode may have and still give each row the numbers it would get alone.

Speculation verifies several tokens in one decode, and answers that run side by side share one too.
Where that rounds differently from one token at a time, an answer could change; which kernels do
depends on the weights' kind, the build and the CPU, so it is tried out when a model is loaded
(docs/threads.md has what was found).
"""

import hashlib

import numpy as np
import numpy.typing as npt

from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.sampling import row_of_logits

_PROMPT = 8  # tokens before the rows that are compared


def exact_rows(library: Library, context: Context, vocab_size: int, most: int) -> int:
    """The most rows, up to `most`, whose logits are those of the same rows one by one; at least 1.

    Evaluates on the first slot of an empty context, and leaves it empty.
    """
    most = min(most, context.length - _PROMPT)
    tokens = [(37 * place + 5) % vocab_size for place in range(_PROMPT + max(most, 1))]
    prompt, rest = tokens[:_PROMPT], tokens[_PROMPT:]
    batch = Batch(library, max(_PROMPT, most, 1))

    def evaluate(start: int, given: list[int]) -> list[bytes]:
        batch.clear()
        batch.add(0, start, given, all_logits=start >= _PROMPT)
        context.decode(batch)
        rows = range(len(given)) if start >= _PROMPT else ()
        return [_digest(row_of_logits(library, context.handle, row, vocab_size)) for row in rows]

    def begin() -> None:
        context.clear()
        evaluate(0, prompt)

    if most < 2:
        return 1
    begin()
    alone = [evaluate(_PROMPT + place, [token])[0] for place, token in enumerate(rest[:most])]
    exact = 1
    for rows in (most, *range(2, most)):
        begin()
        together = evaluate(_PROMPT, rest[:rows])
        if together != alone[:rows]:
            if rows < most:
                break
            continue
        exact = rows
        if rows == most:
            break
    context.clear()
    return exact


def _digest(logits: npt.NDArray[np.float32]) -> bytes:
    """Tells rows apart bit for bit; the rows of a large vocabulary are megabytes."""
    return hashlib.blake2b(logits.data, digest_size=16).digest()
