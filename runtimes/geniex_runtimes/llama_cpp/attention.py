"""The same attention for one row as for several, whatever the number of threads.

From 512 cells on, ggml's CPU attends to a single row in one part per thread and adds the parts up;
several rows are attended to as wholes. The two round differently, so an answer drafted and verified
would not be the one decoded token by token, nor an answer beside others the one given alone. ggml's
reference mode leaves that way out; what else it leaves out (a norm fused with its weights, a fast
rotation of quantised cells) is not to change a number, so it is switched on for nothing else.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from geniex_runtimes.llama_cpp.library import Library

# the cells that ggml attends to in parts
IN_PARTS = frozenset({"f16", "f32"})

_SCHEDULER = "_ZNK13llama_context9get_schedEv"
_REFERENCE = b"ggml_backend_cpu_set_use_ref"
_MOST_BACKENDS = 64


def switch(library: Library, context: Any) -> Callable[[bool], None] | None:
    """What switches a context's reference mode; None where this build has no way to it.

    The scheduler is asked for by its C++ name, which Windows does not export.
    """
    try:
        scheduler_of = library.typed(_SCHEDULER, ctypes.c_void_p, ctypes.c_void_p)
    except AttributeError:
        return None
    address = ctypes.c_void_p
    registry = library.ggml("ggml_backend_reg_by_name", address, ctypes.c_char_p)(b"CPU")
    if not registry:
        return None
    found = library.ggml(
        "ggml_backend_reg_get_proc_address", address, address, ctypes.c_char_p
    )(registry, _REFERENCE)  # fmt: skip
    if not found:
        return None
    use_reference = ctypes.CFUNCTYPE(None, address, ctypes.c_bool)(found)
    scheduler = scheduler_of(context)
    backends = _cpu_backends(library, scheduler) if scheduler else []

    def set_whole(whole: bool) -> None:
        for backend in backends:
            use_reference(backend, whole)

    return set_whole


def _cpu_backends(library: Library, scheduler: int) -> list[int]:
    address = ctypes.c_void_p
    count = library.ggml("ggml_backend_sched_get_n_backends", ctypes.c_int, address)(scheduler)
    backend_at = library.ggml("ggml_backend_sched_get_backend", address, address, ctypes.c_int)
    name_of = library.ggml("ggml_backend_name", ctypes.c_char_p, address)
    backends = [backend_at(scheduler, place) for place in range(min(count, _MOST_BACKENDS))]
    return [backend for backend in backends if name_of(backend) == b"CPU"]
