"""A model's weights in memory, shared by the contexts that run it."""

import ctypes
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex_catalogue.errors import LoadError, UsageError
from geniex_runtimes.llama_cpp import heap, locked_memory
from geniex_runtimes.llama_cpp.huge_pages import FreshMemory
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.vocab import Vocab

log = logging.getLogger("geniex.llama_cpp")

# the next step where weights give no numbers: checks of the file's form do not see it
BAD_WEIGHTS = "download it again, or use another file"
_LOCK_FAILED = re.compile(r"failed to (?:mlock|VirtualLock)(?: (\d+)-byte)?|mlock not supported")


@dataclass(frozen=True, slots=True)
class Placement:
    """Which of a file's weights go where, and how they get there.

    `devices` are ggml's device names, none for the CPU alone; `gpu_layers` -1 is all. `heads` also
    loads next-token heads that the file has, for speculation. `mlock` has the system never swap
    weights out; without `mmap` they are read into memory of our own, in huge pages where the system
    has them.
    """

    devices: tuple[str, ...] = ()
    gpu_layers: int = -1
    extra_buffers: bool = True
    heads: bool = False
    mlock: bool = False
    mmap: bool = True


class Weights:
    """Loaded weights. `close` frees them; the contexts on them must be freed before."""

    def __init__(
        self,
        library: Library,
        files: Sequence[Path],
        placement: Placement = Placement(),
        *,
        shapes: bool = False,
        progress: Callable[[float], bool] | None = None,
    ) -> None:
        """Load a GGUF file, or all parts of a split one in order.

        `shapes` loads all but the weights: contexts can be made on it, and nothing evaluated.
        `progress` is called with 0.0 to 1.0 and stops the load by returning False.
        Raises LoadError, and UsageError for a device that is not there.
        """
        self._library = library
        self._lock = threading.Lock()
        api = library.api
        params = api.llama_model_default_params()
        self._devices = _device_array(library, placement.devices)
        params.devices = ctypes.addressof(self._devices)
        layers = placement.gpu_layers
        params.n_gpu_layers = (999 if layers < 0 else layers) if placement.devices else 0
        params.use_extra_bufts = placement.extra_buffers
        params.load_mtp = placement.heads
        params.no_alloc = shapes
        # llama.cpp maps no file whose bytes it does not read
        params.load_mode = _load_mode(
            api, mmap=placement.mmap and not shapes, mlock=placement.mlock
        )
        if placement.mlock:
            heap.set_apart()
        watch = _Watch(progress, lock=placement.mlock and not shapes)
        params.progress_callback = api.llama_progress_callback(watch)
        library.recent.clear()
        locked = locked_memory.locked()
        if len(files) == 1:
            handle = api.llama_model_load_from_file(os.fsencode(files[0]), params)
        else:
            paths = (ctypes.c_char_p * len(files))(*(os.fsencode(file) for file in files))
            handle = api.llama_model_load_from_splits(paths, len(files), params)
        if not handle:
            raise LoadError(
                f"llama.cpp could not load `{files[0].name}`: {library.complaints()}",
                hint="run `geniex doctor` on it; a newer llama-cpp-python may know this model",
            )
        grown = locked_memory.locked() - locked
        failed = watch.not_locked or _lock_failure(library.recent, grown)
        if placement.mlock and failed:
            api.llama_model_free(handle)
            raise LoadError(
                f"`--mlock`: the system does not keep `{files[0].name}` in memory: {failed}",
                hint="raise the limit (`ulimit -l` shows it in KiB), or leave `--mlock` out",
            )
        self.handle: int | None = handle
        self.chat_template = self.metadata("tokenizer.chat_template")
        self.vocab = Vocab(library, handle, self.chat_template)
        self.training_context = int(api.llama_model_n_ctx_train(handle))
        self.sliding_window = int(api.llama_model_n_swa(handle))
        self.rolls_back = not (
            api.llama_model_is_recurrent(handle) or api.llama_model_is_hybrid(handle)
        )
        self.hidden_size = int(api.llama_model_n_embd_out(handle))
        self.heads = int(api.llama_model_n_layer_nextn(handle))

    def metadata(self, key: str) -> str | None:
        """A metadata value as text; None when the file does not have the key."""
        api = self._library.api
        key_bytes = key.encode()
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = api.llama_model_meta_val_str(self.handle, key_bytes, buffer, size)
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", "replace")
            size = length + 1

    def close(self) -> None:
        """Free the weights; a second call does nothing."""
        with self._lock:
            handle, self.handle = self.handle, None
        if handle is not None:
            self._library.api.llama_model_free(handle)


def _load_mode(api: Any, *, mmap: bool, mlock: bool) -> int:
    if mlock:
        return int(api.LLAMA_LOAD_MODE_MMAP_MLOCK if mmap else api.LLAMA_LOAD_MODE_MLOCK)
    return int(api.LLAMA_LOAD_MODE_AUTO if mmap else api.LLAMA_LOAD_MODE_NONE)


class _Watch:
    """What llama.cpp calls: first when all memory is there and nothing written to it yet.

    With `lock` that memory is locked, and `not_locked` says why it could not be.
    """

    def __init__(self, progress: Callable[[float], bool] | None, *, lock: bool) -> None:
        self.not_locked: str | None = None
        self._progress = progress
        self._lock = lock
        self._fresh: FreshMemory | None = FreshMemory()

    def __call__(self, fraction: float, _: object) -> bool:
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            log.debug("huge pages are asked for in %d bytes", fresh.ask())
            if self._lock:
                self.not_locked = locked_memory.lock(fresh.areas(heap.LARGE))
        return self._progress is None or self._progress(fraction)


def _lock_failure(lines: Iterable[str], grown: int) -> str | None:
    """Why weights could not be locked: llama.cpp goes on without it, and only logs that.

    `grown` is how many more bytes are locked than before. llama.cpp asks for a page more than a
    buffer has; where nothing follows, Linux locks the buffer and still says that it failed.
    """
    failed = [(line, found) for line in lines if (found := _LOCK_FAILED.search(line))]
    sizes = [int(found[1]) for _, found in failed if found[1]]
    if not failed or (len(sizes) == len(failed) and 0 < sum(sizes) <= grown):
        return None
    # llama.cpp appends its advice after a line break, and errors are one line
    return failed[0][0].split(": ")[-1].partition("\n")[0]


def _device_array(library: Library, names: Sequence[str]) -> ctypes.Array[ctypes.c_void_p]:
    """A NULL-terminated array of ggml devices; only the NULL for the CPU alone."""
    by_name = library.device_by_name
    handles: list[int | None] = []
    for name in names:
        handle = by_name(name.encode())
        if not handle:
            raise UsageError(
                f"llama.cpp has no device `{name}`", hint="see `geniex devices` for what is there"
            )
        handles.append(handle)
    return (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
