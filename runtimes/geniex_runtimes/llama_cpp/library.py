"""The native library: loaded once, its log lines sent to `logging`, its calls typed once.

Only this folder touches `llama_cpp`. Addresses are returned as plain ints: they are cheap to add to
and to build array views from.
"""

import collections
import contextlib
import ctypes
import functools
import importlib.metadata
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.llama_cpp import heap

log = logging.getLogger("geniex.llama_cpp.native")

SPIN_COUNT = "1000"  # the fewest that are as fast as any on an idle machine (docs/threads.md)

# a library does not write to the terminal unless its user sets logging up
logging.getLogger("geniex").addHandler(logging.NullHandler())

# ggml's log levels; 5 continues the line before
_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUED = 5
# what stands before the reason why a model does not load
_REASON = "error loading model: "
# how a decode ends that we stopped ourselves: no error of anybody's
_STOPPED = ("compute_async failed with error 1", "compute status: 1", "failed to decode, ret = 2")


class Library:
    """llama.cpp's C functions, through the bindings of llama-cpp-python.

    `api` is the package's low-level module, `ext` its bindings of functions that are not public.
    """

    def __init__(self, api: Any, ext: Any) -> None:
        self.api = api
        self.ext = ext
        self.version = importlib.metadata.version("llama-cpp-python")
        self.recent: collections.deque[str] = collections.deque(maxlen=40)
        self._continued = logging.DEBUG
        # the native side keeps this pointer for good: the reference must live as long
        self._log_callback = api.llama_log_callback(self._on_log)
        api.llama_log_set(self._log_callback, ctypes.c_void_p(0))
        api.llama_backend_init()
        address, i32 = ctypes.c_void_p, ctypes.c_int32
        self.decode = self.typed("llama_decode", i32, address, api.llama_batch)
        self.synchronize = self.typed("llama_synchronize", None, address)
        self.logits = self._brief("llama_get_logits", address, address)
        self.logits_ith = self._brief("llama_get_logits_ith", address, address, i32)
        self.keep = self._brief("llama_memory_seq_rm", ctypes.c_bool, address, i32, i32, i32)
        self.sample = self._brief("llama_sampler_sample", i32, address, address, i32)
        self.token_to_piece = self._brief(
            "llama_token_to_piece", i32, address, i32, address, i32, i32, ctypes.c_bool
        )
        self.move = _brief_move()
        flag = ctypes.c_bool
        self.set_nextn = self._retyped(ext.llama_set_embeddings_nextn, None, address, flag, flag)
        self.set_nextn_head = self._retyped(ext.llama_set_nextn_layer_offset, None, address, i32)
        self.context_of_draft = ext.llama_get_ctx_other
        self.nextn_rows = self._retyped(ext.llama_get_embeddings_nextn, address, address)
        self.nextn_row = self._retyped(ext.llama_get_embeddings_nextn_ith, address, address, i32)
        self.device_by_name = self.ggml("ggml_backend_dev_by_name", address, ctypes.c_char_p)

    def typed(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        """One of llama.cpp's functions. Raises AttributeError where the library has none."""
        # indexing gives a function object of our own: the package's types stay as they are
        function = self.api._lib[name]
        function.argtypes = list(arguments)
        function.restype = result
        return function  # type: ignore[no-any-return]

    def _brief(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        """A call of microseconds, which keeps the interpreter for itself.

        ctypes lets other threads run meanwhile, and to get the interpreter back from a busy one
        takes a switch interval: beside a server with many streams that is most of a step's time.
        """
        address = ctypes.cast(self.api._lib[name], ctypes.c_void_p).value or 0
        return ctypes.PYFUNCTYPE(result, *arguments)(address)

    @staticmethod
    def _retyped(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
        # C++ symbols whose names depend on the compiler: the package has found them already
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        return ctypes.PYFUNCTYPE(result, *arguments)(address)

    def ggml(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        """One of ggml's functions. Raises AttributeError where the library has none."""
        from llama_cpp._ggml import libggml

        function = libggml[name]
        function.argtypes = list(arguments)
        function.restype = result
        return function  # type: ignore[no-any-return]

    def _on_log(self, level: int, text: bytes, _: object) -> None:
        line = text.decode("utf-8", "replace").rstrip("\n")
        if level != _CONTINUED:
            stopped = line.endswith(_STOPPED)
            self._continued = logging.DEBUG if stopped else _LEVELS.get(level, logging.DEBUG)
        if line.strip(" ."):
            if self._continued >= logging.WARNING:
                self.recent.append(line.strip())
            log.log(self._continued, "%s", line)

    def system_info(self) -> str:
        """Which instructions and libraries llama.cpp was built for and uses."""
        return str(self.api.llama_print_system_info().decode("utf-8", "replace"))

    @contextlib.contextmanager
    def captured(self) -> Iterator[list[str]]:
        """What the library writes straight to file descriptor 2 in here, as lines, afterwards.

        A few of its calls do so instead of logging; their text must not reach the terminal.
        """
        lines: list[str] = []
        with _stderr_lock, tempfile.TemporaryFile() as file:
            saved = os.dup(2)
            os.dup2(file.fileno(), 2)
            try:
                yield lines
            finally:
                os.dup2(saved, 2)
                os.close(saved)
                file.seek(0)
                text = file.read().decode("utf-8", "replace")
                # not for the log: it is what a client sent that these calls complain of
                lines += [line.strip() for line in text.splitlines() if line.strip()]

    def complaints(self) -> str:
        """The library's last warnings and errors as one line, or that there were none.

        Of a load that failed its reason alone: warnings before it are about something else.
        """
        lines = list(self.recent)
        reasons = [line.partition(_REASON)[2] for line in lines if _REASON in line]
        return "; ".join(reasons[-1:] or lines[-3:]) or "it gave no reason"


_lock = threading.Lock()
_stderr_lock = threading.Lock()


def _brief_move() -> Callable[[int, int, int], object]:
    """C's `memmove`; that of ctypes lets other threads run meanwhile (see `Library._brief`)."""
    libc = ctypes.PyDLL("ucrtbase" if sys.platform == "win32" else None)
    move = libc.memmove
    move.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    move.restype = None
    return move


def load() -> Library:
    """The library, imported on the first call.

    Raises RuntimeNotInstalledError when the package is missing or its library does not load.
    """
    with _lock:
        return _load()


@functools.cache
def _load() -> Library:
    _bound_spinning()
    heap.share()
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # else an abort starts a debugger
    try:
        from llama_cpp import llama_cpp as api
        from llama_cpp import llama_cpp_ext as ext
    except ImportError as exc:
        raise RuntimeNotInstalledError(
            f"runtime `llama_cpp` needs the package llama-cpp-python: {exc}",
            hint="run `pip install geniex-local` again, or see the README for the build flags",
        ) from exc
    except (OSError, RuntimeError, AttributeError) as exc:
        raise RuntimeNotInstalledError(
            f"the library of llama-cpp-python does not load: {exc}",
            hint="reinstall it: `pip install --force-reinstall --no-cache-dir llama-cpp-python`",
        ) from exc
    return Library(api, ext)


def _bound_spinning() -> None:
    """Make GNU OpenMP's threads sleep after a short spin, unless the user has said otherwise.

    By default they spin so long that decoding collapses beside another busy program. OpenMP reads
    the variable once, when its library is loaded.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
