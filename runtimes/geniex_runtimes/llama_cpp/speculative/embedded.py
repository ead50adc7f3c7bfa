"""Next-token heads in a model's own file: which of them llama.cpp can run."""

from geniex_catalogue.gguf import GGUFHeader
from geniex_runtimes.errors import SpeculativeError

# Architectures whose heads llama.cpp evaluates, with what each head needs besides its projection.
# Of all others it keeps the tensors at most, and makes a context that computes something else.
_ROUTER = ("ffn_gate_inp",)
_NORM = ("nextn.shared_head_norm",)
ONE_HEAD: dict[str, tuple[str, ...]] = {
    "qwen35": (),
    "qwen35moe": _ROUTER,
    "qwen3next": _ROUTER,
    "nemotron_h_moe": (*_ROUTER, *_NORM),
    "bailingmoe3": _NORM,
    "deepseek2": (),
    "deepseek32": _ROUTER,
    "deepseek4": (),
    "glm4moe": _ROUTER,
    "glm-dsa": _ROUTER,
    "cohere2moe": _ROUTER,
}
ANY_HEADS: dict[str, tuple[str, ...]] = {
    "hy_v3": (),
    "step35": (),
    "mimo2": ("attn_qkv", "ffn_gate", "ffn_up", "ffn_down"),
}
_PARTS = ("nextn.eh_proj", "nextn.enorm", "nextn.hnorm")


def check_heads(header: GGUFHeader, name: str) -> int:
    """How many heads a model can draft with; `name` is its file's.

    Raises SpeculativeError with the reason when it has none, or none that llama.cpp can run.
    """
    architecture, count = header.architecture or "", header.nextn_layers
    if not count:
        raise SpeculativeError(
            f"`{name}` ({architecture}) has no next-token heads for MTP",
            hint="`--spec-type ngram-simple` needs neither heads nor a draft",
        )
    extra = ONE_HEAD.get(architecture, ANY_HEADS.get(architecture))
    if extra is None:
        raise SpeculativeError(
            f"`{name}` declares next-token heads ({count}), and llama.cpp cannot run those of "
            f"architecture {architecture}"
        )
    if count >= header.block_count:
        raise SpeculativeError(
            f"`{name}` declares {count} next-token heads in {header.block_count} blocks"
        )
    if architecture in ONE_HEAD and count != 1:
        raise SpeculativeError(
            f"`{name}` has {count} next-token heads, and llama.cpp runs 1 of architecture "
            f"{architecture}"
        )
    _check_tensors(header, name, (*_PARTS, *extra))
    _check_deepseek(header, name)
    return count


def _check_tensors(header: GGUFHeader, name: str, parts: tuple[str, ...]) -> None:
    there = {tensor.name for tensor in header.tensors}
    for block in range(header.block_count - header.nextn_layers, header.block_count):
        for part in parts:
            tensor = f"blk.{block}.{part}.weight"
            if tensor not in there:
                raise SpeculativeError(
                    f"`{name}` declares next-token heads ({header.nextn_layers}), and their "
                    f"tensor `{tensor}` is missing"
                )


def _check_deepseek(header: GGUFHeader, name: str) -> None:
    """What llama.cpp takes for granted of DeepSeek's heads, and ends the process otherwise."""
    head = header.block_count - 1
    if header.architecture == "deepseek2":
        for part in ("attention.key_length_mla", "attention.value_length_mla"):
            if not header.number(header.own(part)):
                raise SpeculativeError(
                    f"the head of `{name}` needs latent attention (MLA), and `{part}` is missing"
                )
        scale = header.metadata.get(header.own("attention.temperature_scale"))
        if scale:
            raise SpeculativeError(
                f"the head of `{name}` cannot scale its attention (by {scale}), as the model does"
            )
        dense = header.number(header.own("leading_dense_block_count")) or 0
        if dense > head:
            raise SpeculativeError(
                f"the head of `{name}` is to have experts, and its block {head} is one of {dense} "
                "dense ones"
            )
    if header.architecture == "deepseek4":
        hashed = header.number(header.own("hash_layer_count")) or 0
        if hashed > head:
            raise SpeculativeError(
                f"the head of `{name}` cannot be routed by hash, and its block {head} is one of "
                f"{hashed} such"
            )
