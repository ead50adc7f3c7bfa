"""`python -m ci.qairt_bundles.training`: train the tiny decoder and write the committed data.

Needs torch, which nothing else here does; some minutes on two cores.
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from ci.qairt_bundles.corpus import BOS, document
from ci.qairt_bundles.shape import SHAPE, Shape
from ci.qairt_bundles.vocabulary import train as train_vocabulary
from ci.qairt_bundles.weights import DATA, TOKENIZER, round_weight, save

_IGNORED = -100
_LONGEST = 448


class Block(nn.Module):
    """One layer: attention with grouped heads, then a gated feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, heads = shape.width, shape.heads * shape.head_width
        keys = shape.kv_heads * shape.head_width
        self.attention_norm = nn.Parameter(torch.ones(width))
        self.mlp_norm = nn.Parameter(torch.ones(width))
        for name, rows, columns in (
            ("q", width, heads),
            ("k", width, keys),
            ("v", width, keys),
            ("o", heads, width),
            ("gate", width, shape.mlp),
            ("up", width, shape.mlp),
            ("down", shape.mlp, width),
        ):
            self.register_parameter(name, nn.Parameter(torch.randn(rows, columns) * rows**-0.5))
        self.shape = shape

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The hidden state after this layer, B T width."""
        batch, length, _ = x.shape
        shape = self.shape
        h = norm(x, self.attention_norm, shape.epsilon)

        def heads(weight: Tensor, count: int) -> Tensor:
            return (h @ weight).view(batch, length, count, shape.head_width).transpose(1, 2)

        q = turn(heads(self.q, shape.heads), cos, sin)
        k = turn(heads(self.k, shape.kv_heads), cos, sin)
        v = heads(self.v, shape.kv_heads)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + mixed.transpose(1, 2).reshape(batch, length, -1) @ self.o
        h = norm(x, self.mlp_norm, shape.epsilon)
        return x + (functional.silu(h @ self.gate) * (h @ self.up)) @ self.down


class Decoder(nn.Module):
    """The whole network; names of its parameters are those of the committed weights."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * 0.5)
        self.head = nn.Parameter(torch.randn(shape.width, shape.vocabulary) * 0.08)
        self.norm = nn.Parameter(torch.ones(shape.width))
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.shape = shape

    def forward(self, ids: Tensor) -> Tensor:
        """Logits, B T vocabulary."""
        half = torch.arange(0, self.shape.head_width, 2) / self.shape.head_width
        angle = torch.arange(ids.shape[1])[:, None] / self.shape.rope_theta**half
        cos, sin = angle.cos(), angle.sin()
        x = self.embedding[ids]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return norm(x, self.norm, self.shape.epsilon) @ self.head


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """RMS norm."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * weight


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions: the halves of a head turned into each other."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def batches(tokenizer: object, chance: random.Random, tokens: int) -> Iterator[Tensor]:
    """Endless padded batches of documents, about `tokens` in each."""
    encode = tokenizer.encode  # type: ignore[attr-defined]
    while True:
        rows: list[list[int]] = []
        while not rows or (len(rows) + 1) * max(map(len, rows)) < tokens:
            ids = encode(BOS + document(chance)).ids
            # several in a row, so that all is known at any place of the context
            while len(ids) < _LONGEST and chance.random() < 0.35:
                ids += encode(BOS + document(chance)).ids
            rows.append(ids[:_LONGEST])
        batch = torch.full((len(rows), max(map(len, rows))), _IGNORED)
        for at, row in enumerate(rows):
            batch[at, : len(row)] = torch.tensor(row)
        yield batch


def loss_of(model: Decoder, batch: Tensor) -> Tensor:
    """Mean loss of the next token."""
    logits = model(batch[:, :-1].clamp(min=0))
    return functional.cross_entropy(
        logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=_IGNORED
    )


def train(steps: int, tokens: int, seed: int) -> tuple[Decoder, object]:
    """Train vocabulary and network; weights are rounded to 8 bits in the last third."""
    torch.manual_seed(seed)
    tokenizer = train_vocabulary()
    model = Decoder(SHAPE)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1, betas=(0.9, 0.99), weight_decay=0.01)
    stream = batches(tokenizer, random.Random(seed), tokens)
    started = time.monotonic()
    for step in range(steps):
        rate = 4e-3 * min(1, (step + 1) / 50) * (0.05 + 0.95 * math.cos(step / steps * math.pi / 2))
        for group in optimiser.param_groups:
            group["lr"] = rate
        kept = _rounded(model) if step > steps * 2 // 3 else None
        loss = loss_of(model, next(stream))
        optimiser.zero_grad()
        loss.backward()
        if kept is not None:
            _restore(model, kept)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 0:
            print(f"{step}: {loss.item():.4f} {time.monotonic() - started:.0f} s", flush=True)
    return model, tokenizer


def _rounded(model: Decoder) -> list[Tensor]:
    """Round the weights as the graphs do, and answer what they were (straight-through)."""
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values, scale = round_weight(name, parameter.numpy())
            parameter.copy_(torch.from_numpy(values.astype("float32") * scale))
    return kept


def _restore(model: Decoder, kept: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, before in zip(model.parameters(), kept, strict=True):
            parameter.copy_(before)


def main() -> None:
    """Train, and write weights and tokenizer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=1536)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = train(args.steps, args.tokens, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / TOKENIZER))  # type: ignore[attr-defined]
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    print(f"{save(weights, args.out)} bytes of weights in {args.out}")


if __name__ == "__main__":
    main()
