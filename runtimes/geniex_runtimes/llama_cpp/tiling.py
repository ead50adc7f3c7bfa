"""Whether this process evaluates K-quants in tiles, from eight rows on.

ggml's tiled kernel makes prompts faster, and rounds differently from the kernel of fewer rows: with
it eight answers cannot go together and be what they are alone. It is a switch of the whole process,
read from the environment at the first evaluation, so the first model that is loaded decides
(docs/threads.md has what both cost).
"""

import logging
import math
import os
import platform
import threading

from geniex_catalogue.gguf import GGUFHeader
from geniex_runtimes.options import LoadOptions

log = logging.getLogger("geniex.llama_cpp")

SWITCH = "GGML_CPU_TILED_MM"
TILED_FROM = 8  # rows
# ggml's numbers of Q2_K to Q6_K and IQ2_XXS to IQ1_M
_TILED = frozenset({*range(10, 15), *range(16, 24), 29})
X86 = frozenset({"x86_64", "amd64"})  # as `platform.machine` calls it, in lower case
# of more of a model's weights the slower prompts would cost more than answers together gain
_LARGE_PART = 0.5

_lock = threading.Lock()
_settled: list[str] = []  # the model that decided


def has_kernel(header: GGUFHeader | None) -> bool:
    """Whether rows of this model may be evaluated in tiles, as the process is settled."""
    return is_on() and _part(header) > 0


def is_on() -> bool:
    """Whether the switch is on, which is ggml's default."""
    text = os.environ.get(SWITCH, "").strip()
    return not text or (text.lstrip("+-").isdecimal() and int(text) != 0)


def settle(name: str, header: GGUFHeader | None, options: LoadOptions) -> None:
    """Before a model is loaded: decide for the process, if nobody has.

    Tiles are switched off where eight answers or more may go together and only some of the layers'
    weights are K-quants. A variable that the user has set stays.
    """
    part = _part(header)
    with _lock:
        if _settled:
            if part >= _LARGE_PART and not is_on():
                log.warning(
                    "prompts of `%s` take longer in this process, since `%s` was loaded first and "
                    "shares its steps between %d answers or more; a process of its own is faster",
                    name,
                    _settled[0],
                    TILED_FROM,
                )
            return
        _settled.append(name)
        several = options.compute == "cpu" and options.slots >= TILED_FROM
        if several and 0 < part < _LARGE_PART and SWITCH not in os.environ:
            os.environ[SWITCH] = "0"


def _part(header: GGUFHeader | None) -> float:
    """What part of the layers' weights has the kernel on this machine."""
    if header is None or platform.machine().lower() not in X86:
        return 0.0
    sizes = [
        (math.prod(tensor.shape), tensor.type in _TILED)
        for tensor in header.tensors
        if tensor.name.startswith("blk.")
    ]
    tiled = sum(size for size, found in sizes if found)
    return tiled / max(1, sum(size for size, _ in sizes))
