"""Models and machines for the dispatcher's tests: made of numbers, none of them exists."""

from pathlib import Path
from typing import Literal

from geniex_catalogue.gguf import GGUFHeader
from geniex_catalogue.gguf_parser import MetadataValue, TensorInfo
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import Availability, Device, HardwareProfile

GB = 1_000_000_000
_F32 = 0

CPU = Device("CPU", "a CPU", "cpu", "llama_cpp")
HTP0 = Device("HTP0", "Hexagon", "npu", "llama_cpp")
HTP1 = Device("HTP1", "Hexagon", "npu", "llama_cpp")
ADRENO = Device("GPUOpenCL", "Adreno", "gpu", "llama_cpp", 16 * GB, 15 * GB)
CUDA0 = Device("CUDA0", "RTX", "gpu", "llama_cpp", 8 * GB, 7 * GB)
CUDA1 = Device("CUDA1", "RTX", "gpu", "llama_cpp", 8 * GB, 7 * GB)
VULKAN0 = Device("Vulkan0", "RTX", "gpu", "llama_cpp", 8 * GB, 7 * GB)
SILENT_GPU = Device("SYCL0", "Arc", "gpu", "llama_cpp")

HERE = {
    "llama_cpp": Availability(True, "0.3.36", formats=frozenset({"gguf"})),
    "qairt": Availability(
        False, reason="not part of this version yet", formats=frozenset({"qairt"})
    ),
}


def header(
    size: int = 2 * GB,
    *,
    context: int | None = 32768,
    blocks: int = 24,
    architecture: str = "llama",
    window: int | None = None,
) -> GGUFHeader:
    """A header with `size` bytes of weights and 96 KiB of KV a token (24 blocks)."""
    metadata: dict[str, MetadataValue] = {
        "general.architecture": architecture,
        f"{architecture}.block_count": blocks,
        f"{architecture}.embedding_length": 2048,
        f"{architecture}.feed_forward_length": 8192,
        f"{architecture}.attention.head_count": 16,
        f"{architecture}.attention.head_count_kv": 8,
    }
    if window is not None:
        metadata[f"{architecture}.attention.sliding_window"] = window
    if context is not None:
        metadata[f"{architecture}.context_length"] = context
    tensors = (TensorInfo("blk.0.all", (size // 4,), _F32, 0),)
    return GGUFHeader(3, metadata, tensors, size)


def model(
    size: int = 2 * GB,
    precision: str | None = "Q4_0",
    *,
    format: Literal["gguf", "qairt"] = "gguf",
    context: int | None = 32768,
    architecture: str = "llama",
    bare: bool = False,
) -> ResolvedModel:
    """A model of that size; `bare` is one without a header."""
    known = None if bare else header(size, context=context, architecture=architecture)
    path = Path("model.gguf")
    return ResolvedModel("org/repo:Q4_0", None, format, path, (path,), precision, size, known)


def machine(
    *devices: Device,
    total: int = 16 * GB,
    free: int = 12 * GB,
    chipset: str | None = None,
) -> HardwareProfile:
    """A machine with a CPU and these devices."""
    return HardwareProfile(
        system="Linux",
        machine="aarch64",
        cpu="a CPU",
        cpu_features=frozenset(),
        cores=8,
        logical_cores=8,
        memory_total=total,
        memory_free=free,
        chipset=chipset,
        devices=(*devices, CPU),
    )
