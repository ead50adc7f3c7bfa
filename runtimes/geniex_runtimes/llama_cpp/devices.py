"""What the installed llama.cpp can compute on: ggml's own list of devices."""

import ctypes
import logging
from collections.abc import Callable
from typing import Any, Protocol

from geniex_runtimes.contract import Device
from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.options import ComputeUnit

log = logging.getLogger("geniex.llama_cpp")

# enum ggml_backend_dev_type
_CPU, _GPU, _INTEGRATED_GPU, _ACCELERATOR = 0, 1, 2, 3

_NAMESPACE = "ggml_backend_"


class Ggml(Protocol):
    """The few questions asked of ggml; a device is an address."""

    def count(self) -> int: ...
    def device(self, index: int) -> int: ...
    def name(self, device: int) -> str: ...
    def description(self, device: int) -> str: ...
    def kind(self, device: int) -> int: ...
    def memory(self, device: int) -> tuple[int, int]: ...


def list_devices() -> tuple[Device, ...]:
    """The devices of the installed library, within a unit the better one first.

    Empty when the package is missing or broken: the runtime's availability says why.
    """
    try:
        return listed(_Native())
    except RuntimeNotInstalledError as exc:
        log.debug("no devices: %s", exc.message)
        return ()


def listed(ggml: Ggml) -> tuple[Device, ...]:
    """ggml's devices in geniex' words; helpers of the CPU (BLAS and its like) are left out."""
    found: list[tuple[int, Device]] = []
    for index in range(ggml.count()):
        address = ggml.device(index)
        kind, name = ggml.kind(address), ggml.name(address)
        unit = _unit(kind, name)
        if unit is None:
            continue
        free, total = ggml.memory(address)
        device = Device(name, ggml.description(address), unit, "llama_cpp", total, free)
        found.append((kind, device))
    # a card of its own before the GPU in the processor; ggml's order otherwise
    found.sort(key=lambda pair: pair[0] == _INTEGRATED_GPU)
    return tuple(device for _, device in found)


def _unit(kind: int, name: str) -> ComputeUnit | None:
    if kind == _CPU:
        return "cpu"
    # the Hexagon backend calls its NPU sessions a GPU
    if name.startswith("HTP"):
        return "npu"
    return "gpu" if kind in (_GPU, _INTEGRATED_GPU) else None


class _Native:
    """ggml through ctypes."""

    def __init__(self) -> None:
        from geniex_runtimes.llama_cpp import library

        # loads the package, sends native log lines to `logging`, loads dynamic backends
        library.load()
        self._libraries = _libraries()
        address, size = ctypes.c_void_p, ctypes.c_size_t
        self._count = self._function("dev_count", size)
        self._get = self._function("dev_get", address, size)
        self._name = self._function("dev_name", ctypes.c_char_p, address)
        self._description = self._function("dev_description", ctypes.c_char_p, address)
        self._kind = self._function("dev_type", ctypes.c_int, address)
        sizes = ctypes.POINTER(ctypes.c_size_t)
        self._memory = self._function("dev_memory", None, address, sizes, sizes)

    def _function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        for library in self._libraries:
            try:
                # indexing gives a function object of our own: nobody else's types change
                function = library[_NAMESPACE + name]
            except AttributeError:
                continue
            function.restype = result
            function.argtypes = list(arguments)
            return function  # type: ignore[no-any-return]
        raise RuntimeNotInstalledError(
            f"the library of llama-cpp-python has no `{_NAMESPACE}{name}`",
            hint="install the version of llama-cpp-python that geniex names",
        )

    def count(self) -> int:
        return int(self._count())

    def device(self, index: int) -> int:
        return int(self._get(index))

    def name(self, device: int) -> str:
        return _text(self._name(device))

    def description(self, device: int) -> str:
        return _text(self._description(device))

    def kind(self, device: int) -> int:
        return int(self._kind(device))

    def memory(self, device: int) -> tuple[int, int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._memory(device, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _libraries() -> list[Any]:
    """libggml and libggml-base: on Windows each exports only its own functions."""
    try:
        from llama_cpp._ctypes_extensions import load_shared_library
        from llama_cpp._ggml import libggml, libggml_base_path

        return [libggml, load_shared_library("ggml-base", libggml_base_path)]
    except (ImportError, OSError, RuntimeError) as exc:
        raise RuntimeNotInstalledError(
            f"the library of llama-cpp-python does not load: {exc}",
            hint="reinstall it: `pip install --force-reinstall --no-cache-dir llama-cpp-python`",
        ) from exc
