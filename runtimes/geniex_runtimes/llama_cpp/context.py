"""A llama_context: KV cells of some sequences, and decoding on them."""

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from geniex_catalogue.errors import LoadError
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.kv_cache import is_quantised
from geniex_runtimes.llama_cpp import attention
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.weights import Weights
from geniex_runtimes.options import ComputeUnit, FlashAttention, KvType

# rows of one batch: bounds how long a cancel waits where a decode cannot be stopped
BATCH_ROWS = 512
# rows evaluated at once on a CPU. From 64 rows on ggml takes other kernels, whose rounding makes a
# prompt evaluated at once differ from the same tokens evaluated one by one, as an answer was; then
# a chat continued from the cache would answer differently from one evaluated anew. 60 is as fast.
CPU_ROWS = 60
# ggml's numbers; the bindings do not name them all
_GGML_TYPES: dict[KvType, int] = {
    **{"f32": 0, "f16": 1, "bf16": 30},
    **{"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20},
}


class AbortedError(Exception):
    """Raised when a decode was stopped by `abort`; never leaves the engine."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """`length` is tokens per slot; `threads` are CPU threads of a decode.

    `outputs` is how many rows per slot may give logits in one batch; `rollback` how many tokens a
    recurrent state can be cut back by: natively, for which each step copies that many states, or,
    with `checkpoints`, by what the engine saves before a draft. `kv_type` is what its cells are
    kept in; with `flash_attention` "auto" a CPU and an NPU have it.
    """

    length: int
    slots: int
    threads: int
    compute: ComputeUnit
    outputs: int = 1
    rollback: int = 0
    checkpoints: bool = False
    kv_type: KvType = "f16"
    flash_attention: FlashAttention = "auto"

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU alone computes."""
        return self.compute == "cpu"

    @property
    def has_flash_attention(self) -> bool | None:
        """Whether it is used; None: llama.cpp decides."""
        if self.flash_attention != "auto":
            return self.flash_attention == "on"
        return True if self.compute in ("cpu", "npu") or is_quantised(self.kv_type) else None


class Context:
    """One native context. Belongs to one thread, apart from `abort`."""

    def __init__(
        self,
        library: Library,
        weights: Weights,
        options: ContextOptions,
        target: "Context | None" = None,
    ) -> None:
        """Allocate the KV cells; with `target`, as the MTP heads of that context.

        Raises LoadError when they do not fit.
        """
        self._library = library
        self.options = options
        api = library.api
        params = api.llama_context_default_params()
        params.n_ctx = options.length * options.slots
        params.n_batch = BATCH_ROWS
        params.n_ubatch = CPU_ROWS if options.on_cpu else BATCH_ROWS
        params.n_seq_max = options.slots
        params.n_outputs_max = min(BATCH_ROWS, options.slots * options.outputs)
        params.n_rs_seq = 0 if options.checkpoints else options.rollback
        if target is not None:
            params.ctx_type = api.LLAMA_CONTEXT_TYPE_MTP
            params.ctx_other = target.handle
        params.n_threads = params.n_threads_batch = options.threads
        # own KV per slot: a slot's numbers must not depend on what its neighbours do
        params.kv_unified = False
        params.flash_attn_type = {
            True: api.LLAMA_FLASH_ATTN_TYPE_ENABLED,
            False: api.LLAMA_FLASH_ATTN_TYPE_DISABLED,
            None: api.LLAMA_FLASH_ATTN_TYPE_AUTO,
        }[options.has_flash_attention]
        params.type_k = params.type_v = _GGML_TYPES[options.kv_type]
        params.no_perf = True
        self._abort_flag = ctypes.create_string_buffer(2)
        self._abort_check = _native_abort_check(api)
        params.abort_callback = self._abort_check
        params.abort_callback_data = ctypes.addressof(self._abort_flag)
        library.recent.clear()
        handle = api.llama_init_from_model(weights.handle, params)
        if not handle:
            raise LoadError(
                f"llama.cpp could not make a context of {options.slots} x {options.length} tokens: "
                f"{library.complaints()}",
                hint="ask for a shorter context with `--nctx`",
            )
        self.handle: Any = handle
        self._attend_whole = (
            attention.switch(library, handle)
            if options.on_cpu and options.kv_type in attention.IN_PARTS
            else None
        )
        self._keep_attention(options.threads)
        # all outputs of a decode lie side by side, and in the same place until there are more
        self._outputs_type = ctypes.c_float * (params.n_outputs_max * weights.vocab.size)
        self._outputs_shape = (params.n_outputs_max, weights.vocab.size)
        self._outputs_at = 0
        self.memory = api.llama_get_memory(handle)
        self.length = min(options.length, int(api.llama_n_ctx_seq(handle)))
        # architectures that cannot cut their recurrent state back have it saved and restored
        self.needs_saving = int(api.llama_n_rs_seq(handle)) < options.rollback

    def decode(self, batch: Batch) -> None:
        """Evaluate a batch. Raises AbortedError or GenerationError; the context stays usable."""
        code = self._library.decode(self.handle, batch.finish())
        if code == 0:
            if not self.options.on_cpu:
                # a device works on behind the call: wait here, where other threads may run
                self._library.synchronize(self.handle)
            return
        if code == 1:
            raise GenerationError("the context has no room for this batch")
        if code == 2:
            raise AbortedError("the evaluation was stopped")
        raise GenerationError(
            f"llama.cpp could not evaluate a batch of {batch.rows} rows (code {code}): "
            f"{self._library.complaints()}"
        )

    def logits(self) -> npt.NDArray[np.float32]:
        """The last decode's rows of logits, in the order in which they were asked for.

        A view, valid until the next decode; rows beyond those asked for are not to be read.
        """
        address = self._library.logits(self.handle)
        if address != self._outputs_at:
            buffer = self._outputs_type.from_address(address)
            self._outputs = np.frombuffer(memoryview(buffer), np.float32).reshape(
                self._outputs_shape
            )
            self._outputs_at = address
        return self._outputs

    def warm_up(self, token: int) -> None:
        """Evaluate one token and forget it: buffers are made and faults show. Raises as decode."""
        batch = Batch(self._library, 1)
        batch.add(0, 0, (token,), all_logits=True)
        self.decode(batch)
        self.clear()

    def clear(self) -> None:
        """Forget all sequences."""
        self._library.api.llama_memory_clear(self.memory, False)

    def abort(self, wanted: bool = True) -> None:
        """Make the running decode stop within one graph node; from any thread."""
        self._abort_flag[0] = b"\x01" if wanted else b"\x00"

    def use_threads(self, threads: int) -> None:
        """Use so many CPU threads from the next decode on."""
        self._library.api.llama_set_n_threads(self.handle, threads, threads)
        self._keep_attention(threads)

    def _keep_attention(self, threads: int) -> None:
        """Have a row attended to as a whole; on one thread it is anyway."""
        if self._attend_whole is not None:
            self._attend_whole(threads > 1)

    def keep(self, sequence: int, length: int) -> bool:
        """Drop a sequence's cells from position `length` on; False when the model cannot."""
        return bool(self._library.keep(self.memory, sequence, length, -1))

    def save(self, sequence: int) -> bytes:
        """What of a sequence cannot be cut back (its recurrent state), to be restored later."""
        api = self._library.api
        flags = api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        size = api.llama_state_seq_get_size_ext(self.handle, sequence, flags)
        buffer = (ctypes.c_uint8 * size)()
        written = api.llama_state_seq_get_data_ext(self.handle, buffer, size, sequence, flags)
        return bytes(memoryview(buffer)[:written])

    def restore(self, sequence: int, saved: bytes, length: int) -> bool:
        """Go back to what was saved at `length` tokens; False when llama.cpp cannot."""
        api = self._library.api
        buffer = (ctypes.c_uint8 * len(saved)).from_buffer_copy(saved)
        read = api.llama_state_seq_set_data_ext(
            self.handle, buffer, len(saved), sequence, api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        )
        return bool(read) and self.keep(sequence, length)

    def first_position(self, sequence: int) -> int:
        """The earliest position that a sequence still has cells for; -1 for none."""
        return int(self._library.api.llama_memory_seq_pos_min(self.memory, sequence))

    def close(self) -> None:
        """Free the context; a second call does nothing."""
        handle, self.handle = self.handle, None
        if handle is not None:
            self._library.api.llama_free(handle)


def _native_abort_check(api: Any) -> Any:
    """A C function that answers whether the first byte of its argument is set.

    `strlen` does exactly that for a flag that is the byte 1 followed by 0: called for every graph
    node, it must not cost a trip into Python (measured: that doubles the time of a small decode).
    """
    libc = ctypes.CDLL("ucrtbase") if sys.platform == "win32" else ctypes.CDLL(None)
    return ctypes.cast(libc.strlen, api.ggml_abort_callback)
