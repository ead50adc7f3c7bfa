"""Whether a file says of its model what can be, before llama.cpp sees it.

The reader of headers has refused what lies outside of the file, overlaps or is no GGUF. This
compares the parts with each other. Every file refused here is refused by llama.cpp too, or ends the
process; what it would load is let through, however odd.
"""

from pathlib import Path

from geniex_catalogue.errors import GGUFError
from geniex_catalogue.ggml_types import GGML_TYPES, type_name
from geniex_catalogue.gguf import ArrayInfo, GGUFHeader, TensorInfo
from geniex_catalogue.gguf_cursor import AGAIN

# llama.cpp's own
_MOST_LAYERS = 512
# numbers of a model, and what none has come near: heads, their lengths, the width of a layer
_MOST = {
    "embedding_length": 1 << 20,
    "attention.key_length": 1 << 16,
    "attention.value_length": 1 << 16,
    "expert_count": 1 << 14,
}
_EMBEDDING = "token_embd.weight"
_NO_TOKENIZER = ("none", "no_vocab")
_PER_TOKEN = ("scores", "token_type")


def check(path: Path, header: GGUFHeader | None) -> None:
    """Raise GGUFError for a model whose parts contradict each other.

    `path` is the file, of shards the first, whose headers are joined.
    """
    if header is None:
        return
    for find in (_sizes, _vocabulary, _tensors):
        if reason := find(header):
            raise GGUFError(path.name, reason, hint=AGAIN)


def _sizes(header: GGUFHeader) -> str | None:
    """A fault of its numbers."""
    if header.number(header.own("block_count")) == 0 or header.block_count > _MOST_LAYERS:
        return f"it promises {header.block_count} layers, an impossible number"
    for key, most in _MOST.items():
        value = header.number(header.own(key))
        if value is not None and value > most:
            return f"its `{key}` is {value}, an impossible number"
    return None


def _vocabulary(header: GGUFHeader) -> str | None:
    """A fault of its tokenizer."""
    kind = header.text("tokenizer.ggml.model")
    tokens = _length(header, "tokens")
    # a draft may use its target's vocabulary
    if kind is None or kind in _NO_TOKENIZER or header.role == "draft":
        return None
    if not tokens:
        return "its vocabulary is missing"
    for name in _PER_TOKEN:
        length = _length(header, name)
        if length is not None and length < tokens:
            return f"its vocabulary has {tokens} tokens and {length} of their `{name}`"
    table = _tensor(header, _EMBEDDING)
    width = header.number(header.own("embedding_length"))
    if table is not None and len(table.shape) > 1:
        if table.shape[1] != tokens:
            return f"its vocabulary has {tokens} tokens, and its weights are for {table.shape[1]}"
        if width is not None and table.shape[0] != width:
            return f"its width is {width}, and its weights are for {table.shape[0]}"
    return None


def _tensors(header: GGUFHeader) -> str | None:
    """A fault of its weights: vectors are added and multiplied as they are, in floats."""
    for tensor in header.tensors:
        quantized = tensor.type in GGML_TYPES and GGML_TYPES[tensor.type][1] > 1
        if quantized and len(tensor.shape) == 1:
            name = tensor.name.encode("unicode_escape").decode()
            return f"tensor `{name}` is a vector, and of type {type_name(tensor.type)}"
    return None


def _length(header: GGUFHeader, name: str) -> int | None:
    """How many items an array of the tokenizer has; None where it is no array."""
    value = header.metadata.get(f"tokenizer.ggml.{name}")
    if isinstance(value, tuple):
        return len(value)
    return value.length if isinstance(value, ArrayInfo) else None


def _tensor(header: GGUFHeader, name: str) -> TensorInfo | None:
    return next((tensor for tensor in header.tensors if tensor.name == name), None)
