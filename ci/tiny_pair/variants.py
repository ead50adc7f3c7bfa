"""Files that do not fit the pair, each in one way: for tests that a mismatch is refused."""

from pathlib import Path
from random import Random

import torch
from torch import Tensor

from ci.tiny_pair.gguf_files import (
    DRAFT,
    TARGET,
    NamedTensor,
    draft_tensors,
    target_tensors,
    write_file,
)
from ci.tiny_pair.markup import SPECIALS
from ci.tiny_pair.networks import Draft, Shape, Target
from ci.tiny_pair.tokenizer import Tokenizer

FILE_TYPE = "q8_0"
FIRST_LEARNED = len(SPECIALS) + 2 + 256  # tokens before it are fixed


def write_variants(
    out: Path, name: str, seed: int, shape: Shape, tokenizer: Tokenizer, target: Target
) -> dict[str, int]:
    """Write them all; file names and sizes in bytes."""
    sizes: dict[str, int] = {}

    def write(
        kind: str, what: str, network: str, shape: Shape, tok: Tokenizer, tensors: list[NamedTensor]
    ) -> None:
        role = "target" if network == TARGET else "draft"
        path = out / f"{name}-mismatch-{kind}-{role}-{FILE_TYPE}.gguf"
        label = "gemma4 target" if network == TARGET else "MTP draft"
        title = f"{name} {label}, {what}"
        sizes[path.name] = write_file(path, network, shape, tok, tensors, title, FILE_TYPE)

    # the same shapes and behaviour under other token ids
    order = list(range(FIRST_LEARNED))
    order += Random(seed + 5).sample(
        range(FIRST_LEARNED, shape.n_vocab), shape.n_vocab - len(order)
    )
    permuted = Tokenizer(
        [tokenizer.tokens[index] for index in order],
        [tokenizer.types[index] for index in order],
        tokenizer.merges,
    )
    tensors = _with_embeddings(target, torch.tensor(order))
    write("ids", "permuted vocabulary", TARGET, shape, permuted, tensors)

    # the same network with a smaller vocabulary
    count = shape.n_vocab - 256
    keep = set(tokenizer.tokens[:count])
    merges = [pair for pair in tokenizer.merges if pair[0] + pair[1] in keep]
    smaller = Tokenizer(tokenizer.tokens[:count], tokenizer.types[:count], merges)
    tensors = _with_embeddings(target, torch.arange(count))
    small_shape = Shape(n_vocab=count, n_embd=shape.n_embd)
    write("vocab", "smaller vocabulary", TARGET, small_shape, smaller, tensors)

    # another hidden size, untrained
    torch.manual_seed(seed + 6)
    narrow = Shape(n_vocab=shape.n_vocab, n_embd=shape.n_embd - 64)
    tensors = target_tensors(Target(narrow))
    write("hidden", "other hidden size", TARGET, narrow, tokenizer, tensors)
    write("hidden", "other hidden size", DRAFT, narrow, tokenizer, draft_tensors(Draft(narrow)))

    # a draft whose heads do not fit the target's cache, untrained
    heads = Shape(n_vocab=shape.n_vocab, n_embd=shape.n_embd, head_dim={"swa": 64, "full": 64})
    write("heads", "other head size", DRAFT, heads, tokenizer, draft_tensors(Draft(heads)))
    return sizes


def _with_embeddings(target: Target, rows: Tensor) -> list[NamedTensor]:
    """The target's tensors, its embedding table cut or reordered to these rows."""
    return [
        (name, tensor[rows] if name == "token_embd.weight" else tensor)
        for name, tensor in target_tensors(target)
    ]
