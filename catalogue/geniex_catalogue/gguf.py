"""A GGUF file's header: what the model is, known without reading its weights."""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from geniex_catalogue.errors import GGUFError
from geniex_catalogue.ggml_types import GGML_TYPES, type_name
from geniex_catalogue.gguf_cursor import ReadAt
from geniex_catalogue.gguf_parser import ArrayInfo, MetadataValue, TensorInfo, parse

__all__ = [
    "ArrayInfo",
    "GGUFHeader",
    "Role",
    "TensorInfo",
    "join_shards",
    "parse_header",
    "read_header",
    "tokens_digest",
]

Role: TypeAlias = Literal[
    "model", "draft", "projector", "embedding", "adapter", "imatrix", "vocabulary", "unknown"
]

_DRAFT_ARCHITECTURES = frozenset({"eagle3", "dflash"})
_DRAFT_ENDINGS = ("-assistant", "-mtp", "_mtp", "-eagle", "-draft")
_EMBEDDING_ARCHITECTURES = frozenset(
    {
        "bert",
        "modern-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "neo-bert",
        "jina-bert-v2",
        "jina-bert-v3",
        "eurobert",
        "gemma-embedding",
        "llama-embed",
        "t5encoder",
    }
)
_RECURRENT_ARCHITECTURES = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
# every n-th layer attends to everything, where the file itself does not say
_SWA_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4}
# hybrids that attend in every n-th layer, where the file itself does not say
_ATTENTION_INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
# no model has as many, whatever its file says
_MOST_LAYERS = 4096
# a sliding window keeps the batch being evaluated besides the window
_SWA_EXTRA_TOKENS = 512


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """Metadata and tensor places of one GGUF file (or of a joined set of shards).

    Long arrays (vocabularies) stand as ArrayInfo. `file_size` is bytes, None where unknown.
    """

    version: int
    metadata: Mapping[str, MetadataValue] = field(hash=False)
    tensors: tuple[TensorInfo, ...]
    file_size: int | None

    def number(self, key: str) -> int | None:
        """The metadata value if it is a non-negative whole number."""
        value = self.metadata.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            return None
        return value

    def text(self, key: str) -> str | None:
        """The metadata value if it is text."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def own(self, key: str) -> str:
        """The full name of an architecture's own key: `block_count` -> `llama.block_count`."""
        return f"{self.architecture}.{key}"

    @property
    def architecture(self) -> str | None:
        """`general.architecture`, such as `llama`."""
        return self.text("general.architecture")

    @property
    def file_type(self) -> int | None:
        """`general.file_type`, llama.cpp's number for the precision."""
        return self.number("general.file_type")

    @property
    def context_length(self) -> int | None:
        """Tokens the model was trained for."""
        return self.number(self.own("context_length"))

    @property
    def block_count(self) -> int:
        """Layers, next-token blocks included; 0 where the file does not say."""
        return self.number(self.own("block_count")) or 0

    @property
    def split_count(self) -> int:
        """How many files the model is split into; 1 for a whole one."""
        return self.number("split.count") or 1

    @property
    def split_no(self) -> int:
        """Which part this is, from 0."""
        return self.number("split.no") or 0

    @property
    def chat_template(self) -> str | None:
        """The model's own Jinja template."""
        return self.text("tokenizer.chat_template")

    @property
    def nextn_layers(self) -> int:
        """How many next-token blocks the file declares."""
        return self.number(self.own("nextn_predict_layers")) or 0

    @property
    def has_heads(self) -> bool:
        """Whether the model carries its next-token heads, not only their number."""
        first = self.block_count - self.nextn_layers
        name = f"blk.{first}.nextn.eh_proj.weight"
        return self.nextn_layers > 0 and any(tensor.name == name for tensor in self.tensors)

    @property
    def parameter_count(self) -> int:
        """Values of all tensors."""
        return sum(tensor.values for tensor in self.tensors)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all tensors whose type is known."""
        return sum(tensor.size or 0 for tensor in self.tensors)

    @property
    def unknown_types(self) -> tuple[str, ...]:
        """Tensor types that are not known here; llama.cpp will likely refuse them."""
        return tuple(sorted({type_name(t.type) for t in self.tensors if t.type not in GGML_TYPES}))

    @property
    def recurrent(self) -> bool:
        """Whether some layers keep a state of fixed size instead of a cache entry per token."""
        if self.architecture in _RECURRENT_ARCHITECTURES or self._attention_interval() > 1:
            return True
        return self.own("ssm.state_size") in self.metadata or 0 in self._kv_heads()

    @property
    def state_bytes(self) -> int:
        """Estimated bytes of the state of fixed size that one sequence has; 0 for none.

        As llama.cpp lays it out, in 32-bit floats: for each layer a state, and the last inputs of
        its convolution.
        """
        if not self.recurrent:
            return 0

        def size(key: str) -> int:
            return self.number(self.own(key)) or 0

        width, inner, state = (
            size("embedding_length"),
            size("ssm.inner_size"),
            size("ssm.state_size"),
        )
        convolved = inner + 2 * size("ssm.group_count") * state
        values = inner * state + max(0, size("ssm.conv_kernel") - 1) * convolved
        values += max(0, size("shortconv.l_cache") - 1) * width
        if head := size("wkv.head_size"):
            values += width * (head + (size("token_shift_count") or 2))
        # where every layer attends, every layer has a state beside that
        layers = sum(not heads for heads in self._cache_heads()[: self._own_layers()])
        return 4 * values * (layers or self._own_layers())

    @property
    def role(self) -> Role:
        """What the file is for, by its metadata and tensors; its name plays no part."""
        kind = self.text("general.type")
        if kind == "adapter" or "adapter.type" in self.metadata:
            return "adapter"
        if kind == "imatrix" or "imatrix.datasets" in self.metadata:
            return "imatrix"
        if kind == "mmproj" or self.architecture == "clip" or self._only_clip():
            return "projector"
        if self.architecture is None:
            return "unknown"
        if self._drafts():
            return "draft"
        pooling = self.number(self.own("pooling_type"))
        if self.architecture in _EMBEDDING_ARCHITECTURES or pooling:
            return "embedding"
        return "model" if self.tensors or self.split_count > 1 else "vocabulary"

    def _only_clip(self) -> bool:
        clip = any(key.startswith("clip.") for key in self.metadata)
        return clip and not any(tensor.name == "token_embd.weight" for tensor in self.tensors)

    def _drafts(self) -> bool:
        """A draft by architecture, or next-token blocks without the model that goes before them."""
        architecture = self.architecture or ""
        if architecture in _DRAFT_ARCHITECTURES or architecture.endswith(_DRAFT_ENDINGS):
            return True
        if not self.nextn_layers or not self.tensors or self.split_count > 1:
            return False
        return not any(tensor.name.startswith("blk.0.") for tensor in self.tensors)

    def kv_bytes_per_token(self, context_length: int = 0, value_bytes: float = 2.0) -> int:
        """Estimated bytes of K and V cache per token of context; an f16 cache by default.

        Layers with a sliding window count with the part of `context_length` that they keep (all of
        it when 0). Layers of fixed state, layers that share another's cache, and next-token blocks
        count nothing. 0 when the file does not say enough.
        """
        full = self._head_lengths("")
        swa = self._head_lengths("_swa")
        window = self.number(self.own("attention.sliding_window")) or 0
        share = 1.0
        if context_length > 0 and window > 0:
            share = min(1.0, (window + _SWA_EXTRA_TOKENS) / context_length)
        total = 0.0
        for heads, slides in zip(self._cache_heads(), self._sliding_layers(), strict=True):
            total += heads * (swa * share if slides and window else full)
        return round(total * value_bytes)

    @property
    def kv_head_lengths(self) -> frozenset[int]:
        """Values of a head of K and of V, of layers of every kind; 0 is what is not known."""
        sliding = self.number(self.own("attention.sliding_window"))
        kinds = ("", "_swa") if sliding else ("",)
        return frozenset(length for kind in kinds for length in self._kv_lengths(kind))

    def _head_lengths(self, ending: str) -> int:
        """Values of K and V together of one head in one layer."""
        return sum(self._kv_lengths(ending))

    def _kv_lengths(self, ending: str) -> tuple[int, int]:
        """Values of K and of V of one head in one layer."""
        embedding = self.number(self.own("embedding_length")) or 0
        heads = self._per_layer("attention.head_count")
        most = max(heads, default=0)
        common = embedding // most if most else 0
        key, value = (
            self.number(self.own(which + ending)) or self.number(self.own(which)) or common
            for which in ("attention.key_length", "attention.value_length")
        )
        return key, value

    def _per_layer(self, key: str) -> tuple[int, ...]:
        """A value that may be one number or a list; empty where there is none."""
        value = self.metadata.get(self.own(key))
        values = value if isinstance(value, tuple) else (value,)
        numbers = tuple(v for v in values if isinstance(v, int) and v >= 0)
        if len(numbers) != len(values) or not numbers:
            return ()
        layers = min(self.block_count, _MOST_LAYERS)
        return numbers * layers if len(numbers) == 1 else numbers[:layers]

    def _kv_heads(self) -> tuple[int, ...]:
        """KV heads per layer, as the file says."""
        own = self._per_layer("attention.head_count_kv")
        return own or self._per_layer("attention.head_count")

    def _attention_interval(self) -> int:
        """Of hybrids: every how many layers one attends; 1 for all others."""
        default = _ATTENTION_INTERVALS.get(self.architecture or "", 1)
        return self.number(self.own("full_attention_interval")) or default

    def _cache_heads(self) -> tuple[int, ...]:
        """KV heads per layer that has its own cache entries; 0 for the other layers."""
        heads = self._kv_heads()
        if self.architecture in _RECURRENT_ARCHITECTURES:
            return (0,) * len(heads)
        interval = self._attention_interval()
        shared = self.number(self.own("attention.shared_kv_layers")) or 0
        own = min(self._own_layers(), self.block_count - shared)
        return tuple(
            count if layer < own and (layer + 1) % interval == 0 else 0
            for layer, count in enumerate(heads)
        )

    def _own_layers(self) -> int:
        """Layers but for those of next-token heads."""
        return max(0, min(self.block_count, _MOST_LAYERS) - self.nextn_layers)

    def _sliding_layers(self) -> tuple[bool, ...]:
        """Which layers look through the sliding window only."""
        layers = len(self._cache_heads())
        pattern = self.metadata.get(self.own("attention.sliding_window_pattern"))
        if isinstance(pattern, tuple):
            flags = tuple(bool(flag) for flag in pattern[:layers])
            return flags + (False,) * (layers - len(flags))
        period = self.number(self.own("attention.sliding_window_pattern")) or _SWA_PERIODS.get(
            self.architecture or "", 0
        )
        return tuple(bool(period) and layer % period < period - 1 for layer in range(layers))


def read_header(path: Path) -> GGUFHeader:
    """Read a file's header: bounded in time and memory whatever the file holds.

    Raises GGUFError for what is not a whole, usable GGUF; only regular files are opened.
    """
    name = str(path)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise GGUFError(name, f"it is {what}", hint="give the path of a .gguf file")
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size

            def read(offset: int, length: int) -> bytes:
                file.seek(offset)
                return file.read(length)

            return parse_header(read, name, size)
    except OSError as exc:
        raise _unreadable(name, exc) from exc


def _unreadable(name: str, exc: OSError) -> GGUFError:
    if exc.errno in (errno.ENOENT, errno.ENOTDIR):
        return GGUFError(name, "there is no such file", hint="check the path")
    reason = exc.strerror or str(exc)
    return GGUFError(name, f"it cannot be read: {reason}", hint="check the file's permissions")


def parse_header(read: ReadAt, name: str, size: int | None = None) -> GGUFHeader:
    """The same over any source of bytes: `read(offset, length)` gives up to `length` bytes.

    `size` is the whole file's, None where unknown (then its completeness is not checked).
    """
    raw = parse(read, name, size)
    header = GGUFHeader(raw.version, raw.metadata, raw.tensors, size)
    if size is not None and header.split_count > 1 and raw.data_end < size:
        aligned = -(-raw.data_end // 32) * 32
        if b"GGUF" in (read(raw.data_end, 4), read(aligned, 4)):
            raise GGUFError(
                name,
                f"the {header.split_count} parts of a split model were simply put together",
                hint="keep the parts as separate files, or merge them with `llama-gguf-split`",
            )
    return header


def join_shards(headers: Iterable[GGUFHeader]) -> GGUFHeader:
    """One header for a set of shards in order: the first one's metadata, all tensors and bytes."""
    parts = tuple(headers)
    sizes = [part.file_size for part in parts]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return GGUFHeader(parts[0].version, parts[0].metadata, tensors, total)


def tokens_digest(path: Path, header: GGUFHeader) -> str | None:
    """SHA-256 of the vocabulary's bytes, to compare two models' tokens; None without one.

    `path` is the file that `header` was read from (of shards, the first). Raises GGUFError.
    """
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, ArrayInfo):
        return None
    # imported here: every command would pay for it
    import hashlib

    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            file.seek(tokens.start)
            left = tokens.end - tokens.start
            while left > 0 and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left -= len(piece)
    except OSError as exc:
        raise _unreadable(str(path), exc) from exc
    return digest.hexdigest()
