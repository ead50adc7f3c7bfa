"""Target and draft as torch modules: the graphs `gemma4` and `gemma4-assistant` of llama.cpp.

Shapes are written B (batch), H (heads), T (positions), d (head size).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

KeysValues: TypeAlias = tuple[Tensor, Tensor]
KINDS = ("swa", "full")


@dataclass
class Shape:
    """Sizes of both networks; by kind of layer: `swa` (sliding window) and `full`."""

    n_vocab: int = 2048
    n_embd: int = 256
    n_ff: int = 512
    n_head: int = 4
    kv_heads: dict[str, int] = field(default_factory=lambda: {"swa": 2, "full": 1})
    head_dim: dict[str, int] = field(default_factory=lambda: {"swa": 64, "full": 128})
    # the last two must be swa, full: the draft reads their keys and values
    layers: tuple[str, ...] = ("swa", "full", "swa", "full")
    n_swa: int = 128
    rope_base: dict[str, float] = field(default_factory=lambda: {"swa": 1e4, "full": 1e6})
    rope_part: dict[str, float] = field(default_factory=lambda: {"swa": 1.0, "full": 0.25})
    eps: float = 1e-6
    softcap: float = 30.0
    n_ctx: int = 4096
    d_embd: int = 128
    d_ff: int = 256
    d_layers: tuple[str, ...] = KINDS

    def frequency_factors(self, kind: str) -> Tensor:
        """What RoPE frequencies are divided by; 1e30 switches a pair of dimensions off."""
        half = self.head_dim[kind] // 2
        rotated = int(self.head_dim[kind] * self.rope_part[kind] / 2)
        return torch.tensor([1.0] * rotated + [1e30] * (half - rotated))


class _Rms(torch.autograd.Function):
    """x / rms(x) with a cheap backward pass, which keeps the normalised value only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        square = x.square().mean(-1, keepdim=True, dtype=torch.float32)
        scale = torch.rsqrt(square + eps).to(x.dtype)
        y = x * scale
        ctx.save_for_backward(y, scale)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        y, scale = ctx.saved_tensors
        along = (grad * y).mean(-1, keepdim=True)
        return torch.addcmul(grad, y, along, value=-1).mul_(scale), None


def rms(x: Tensor, eps: float) -> Tensor:
    """x over its root mean square along the last axis."""
    return _Rms.apply(x, eps)


class RMSNorm(nn.Module):
    """`rms` with a weight, used as it is (no "+1")."""

    def __init__(self, size: int, eps: float, start: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), start))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms(x, self.eps) * self.weight.to(x.dtype)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A matrix without bias, started so that sizes are kept."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs**-0.5)
    return layer


class Rope(nn.Module):
    """Rotary positions for one kind of layer."""

    def __init__(self, shape: Shape, kind: str) -> None:
        super().__init__()
        d = shape.head_dim[kind]
        frequencies = shape.rope_base[kind] ** (-torch.arange(0, d, 2).float() / d)
        inverse = frequencies / shape.frequency_factors(kind)
        self.register_buffer("inverse", inverse, persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x: B H T d; positions: T."""
        angles = positions.float()[:, None] * self.inverse
        cos = torch.cat([angles.cos()] * 2, -1).to(x.dtype)
        sin = torch.cat([angles.sin()] * 2, -1).to(x.dtype)
        first, second = x.chunk(2, -1)
        return torch.addcmul(x * cos, torch.cat([-second, first], -1), sin)


class Layer(nn.Module):
    """One block. Without keys and values of its own (`own_kv`) it is a block of the draft."""

    def __init__(self, shape: Shape, kind: str, n_embd: int, n_ff: int, *, own_kv: bool) -> None:
        super().__init__()
        self.eps, self.kind = shape.eps, kind
        d, heads, kv_heads = shape.head_dim[kind], shape.n_head, shape.kv_heads[kind]
        self.d, self.heads, self.kv_heads = d, heads, kv_heads
        self.attn_norm = RMSNorm(n_embd, shape.eps)
        self.wq = linear(n_embd, heads * d)
        if own_kv:
            self.wk = linear(n_embd, kv_heads * d)
            self.wv = linear(n_embd, kv_heads * d)
            self.k_norm = RMSNorm(d, shape.eps)
        self.wo = linear(heads * d, n_embd)
        # the attention scale is 1.0 in this architecture
        self.q_norm = RMSNorm(d, shape.eps, start=d**-0.5)
        self.attn_post_norm = RMSNorm(n_embd, shape.eps, start=0.5)
        self.ffn_norm = RMSNorm(n_embd, shape.eps)
        self.gate = linear(n_embd, n_ff)
        self.up = linear(n_embd, n_ff)
        self.down = linear(n_ff, n_embd)
        self.ffn_post_norm = RMSNorm(n_embd, shape.eps, start=0.5)
        self.out_scale = nn.Parameter(torch.ones(1))
        self.rope = Rope(shape, kind)

    def _own_keys_values(self, h: Tensor, positions: Tensor) -> KeysValues:
        by_head = (*h.shape[:2], self.kv_heads, self.d)
        k = self.rope(self.k_norm(self.wk(h).view(by_head)).transpose(1, 2), positions)
        v = rms(self.wv(h).view(by_head), self.eps).transpose(1, 2)
        return k, v

    def forward(
        self, x: Tensor, positions: Tensor, mask: Tensor, keys_values: KeysValues | None = None
    ) -> tuple[Tensor, KeysValues]:
        """x: B T n_embd -> the same, and the keys and values that were attended to."""
        batch, length, _ = x.shape
        h = self.attn_norm(x)
        q = self.q_norm(self.wq(h).view(batch, length, self.heads, self.d)).transpose(1, 2)
        q = self.rope(q, positions)
        k, v = keys_values or self._own_keys_values(h, positions)
        repeats = self.heads // self.kv_heads
        autocast = torch.is_autocast_enabled("cpu")
        kind = torch.get_autocast_dtype("cpu") if autocast else torch.float32
        k_all = k.to(kind).repeat_interleave(repeats, 1)
        v_all = v.to(kind).repeat_interleave(repeats, 1)
        # faster here than scaled_dot_product_attention, whose CPU backward is slow in bf16
        scores = torch.softmax(q.to(kind) @ k_all.transpose(-1, -2) + mask.to(kind), -1)
        attended = (scores @ v_all).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.attn_post_norm(self.wo(attended))
        h = self.ffn_norm(x)
        gated = functional.gelu(self.gate(h), approximate="tanh") * self.up(h)
        x = x + self.ffn_post_norm(self.down(gated))
        return x * self.out_scale, (k, v)


def make_mask(shape: Shape, kind: str, length: int, *, strict: bool) -> Tensor:
    """T T, 0 where attention may go, else -1e30; `strict`: only to earlier positions."""
    at = torch.arange(length)
    distance = at[:, None] - at[None, :]  # query - key
    allowed = distance > 0 if strict else distance >= 0
    if kind == "swa":
        allowed = allowed & (distance < shape.n_swa)
    if strict:
        allowed = allowed.clone()
        allowed[0, 0] = True  # no NaN for the unused first row
    return torch.zeros(length, length).masked_fill(~allowed, -1e30)


def make_masks(shape: Shape, length: int, *, strict: bool) -> dict[str, Tensor]:
    """A mask for each kind of layer."""
    return {kind: make_mask(shape, kind, length, strict=strict) for kind in KINDS}


def _embedding(shape: Shape, size: int) -> nn.Embedding:
    table = nn.Embedding(shape.n_vocab, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table


class Target(nn.Module):
    """The model whose answers count."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embd = _embedding(shape, shape.n_embd)
        self.layers = nn.ModuleList(
            Layer(shape, kind, shape.n_embd, shape.n_ff, own_kv=True) for kind in shape.layers
        )
        self.norm = RMSNorm(shape.n_embd, shape.eps)

    def hidden(self, ids: Tensor) -> tuple[Tensor, dict[str, KeysValues]]:
        """Ids B T -> states B T n_embd, and the keys and values that the draft reads."""
        positions = torch.arange(ids.shape[1])
        masks = make_masks(self.shape, ids.shape[1], strict=False)
        x = self.embd(ids) * math.sqrt(self.shape.n_embd)
        kept = []
        for layer in self.layers:
            x, keys_values = layer(x, positions, masks[layer.kind])
            kept.append(keys_values)
        return self.norm(x), {"swa": kept[-2], "full": kept[-1]}

    def head(self, h: Tensor) -> Tensor:
        """States -> logits, softly capped."""
        logits = functional.linear(h, self.embd.weight)
        return self.shape.softcap * torch.tanh(logits.float() / self.shape.softcap)


class Draft(nn.Module):
    """The multi-token-prediction head: queries only, on the target's keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embd = _embedding(shape, shape.d_embd)
        self.pre = linear(2 * shape.n_embd, shape.d_embd)
        self.layers = nn.ModuleList(
            Layer(shape, kind, shape.d_embd, shape.d_ff, own_kv=False) for kind in shape.d_layers
        )
        self.norm = RMSNorm(shape.d_embd, shape.eps)
        self.post = linear(shape.d_embd, shape.n_embd)
        self.shape = shape

    def forward(
        self,
        embedding: Tensor,
        h: Tensor,
        keys_values: Mapping[str, KeysValues],
        positions: Tensor,
        masks: Mapping[str, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """One step: the target's scaled embedding of the last token, and the state before it.

        Answers the draft's own features, and the state for its next step.
        """
        x = self.pre(torch.cat([embedding, h], -1))
        for layer in self.layers:
            x, _ = layer(x, positions, masks[layer.kind], keys_values[layer.kind])
        x = self.norm(x)
        return x, self.post(x)

    def head(self, x: Tensor) -> Tensor:
        """Features -> logits."""
        return functional.linear(x, self.embd.weight).float()
