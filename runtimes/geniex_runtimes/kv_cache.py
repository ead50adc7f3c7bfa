"""What the KV cache of a context is kept in: how large that is, and where it cannot be."""

from typing import TYPE_CHECKING, Final

from geniex_catalogue.errors import UsageError
from geniex_runtimes.options import FlashAttention, KvType

if TYPE_CHECKING:
    from geniex_catalogue.gguf import GGUFHeader

# type -> (values of a block, bytes of a block), as ggml lays them out
_BLOCKS: Final[dict[KvType, tuple[int, int]]] = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
    "iq4_nl": (32, 18),
}
# llama.cpp switches flash attention off for these
_NEVER_FLASH: Final = frozenset({"grok"})


def bytes_per_value(kind: KvType | None) -> float:
    """Bytes of one value of K or V; None is the usual f16."""
    values, size = _BLOCKS[kind or "f16"]
    return size / values


def is_quantised(kind: KvType) -> bool:
    """Whether values are kept in blocks, which lose more than their last digits."""
    return _BLOCKS[kind][0] > 1


def check(kind: KvType, flash_attention: FlashAttention, header: "GGUFHeader | None") -> None:
    """Raise UsageError for a cache that llama.cpp would refuse once the weights are loaded.

    A quantised one takes flash attention, and heads that are whole blocks (32 values) long.
    """
    if not is_quantised(kind):
        return
    if flash_attention == "off":
        raise UsageError(
            f"a KV cache of `{kind}` needs flash attention, and `--flash-attn off` forbids it",
            hint="leave `--flash-attn` out, or use `--kv-type f16`",
        )
    if header is None:
        return
    if header.architecture in _NEVER_FLASH:
        raise UsageError(
            f"a KV cache of `{kind}` needs flash attention, which {header.architecture} models "
            "do not have",
            hint="use `--kv-type f16`",
        )
    block = _BLOCKS[kind][0]
    odd = next((length for length in header.kv_head_lengths if length % block), None)
    if odd is not None:
        raise UsageError(
            f"a KV cache of `{kind}` is made of blocks of {block} values, and this model's heads "
            f"have {odd}",
            hint="use `--kv-type f16`",
        )


def kept_in(kind: KvType | None) -> str:
    """What there is to say of a context's cache; nothing for the usual one."""
    return "" if kind in (None, "f16") else f", KV cache in {kind}"
