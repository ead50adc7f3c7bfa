"""A toy embedding model: a small BERT of random weights, with a WordPiece vocabulary."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.toys.toyfile import Dice, ToyFile

PAD, UNK, CLS, SEP = range(4)
WORDS = ("the", "cat", "dog", "sat", "on", "mat", "a", "paris", "is", "capital", "of", "france")
# llama.cpp marks the beginning of a word, where BERT marks its continuation
_START = "\u2581"
_CHARACTERS = tuple(chr(code) for code in range(33, 127))
_WHOLE = dict.fromkeys((*WORDS, *_CHARACTERS))
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(_START + word for word in _WHOLE), *_CHARACTERS)


@dataclass(frozen=True)
class Bert:
    """Sizes, and `pooling` as llama.cpp numbers it: 1 mean, 2 first token, 3 last, 4 rank."""

    pooling: int | None = 1
    hidden: int = 64
    layers: int = 2
    feed_forward: int = 128
    heads: int = 4
    context: int = 1024
    seed: int = 7


def write_bert(path: Path, toy: Bert) -> None:
    """Write the file."""
    dice = Dice(toy.seed)
    with ToyFile(path, "bert") as file:
        file.facts(
            {
                "context_length": toy.context,
                "embedding_length": toy.hidden,
                "block_count": toy.layers,
                "feed_forward_length": toy.feed_forward,
                "attention.head_count": toy.heads,
                "attention.layer_norm_epsilon": 1e-12,
                "attention.causal": False,
            }
        )
        if toy.pooling is not None:
            file.facts({"pooling_type": toy.pooling})
        file.word_pieces(TOKENS, cls=CLS, sep=SEP, unk=UNK, pad=PAD)
        file.matrix("token_embd", dice.normal(len(TOKENS), toy.hidden))
        file.vector("token_types", dice.normal(2, toy.hidden) * 0.1)
        file.vector("position_embd", dice.normal(toy.context, toy.hidden) * 0.1)
        _norm(file, "token_embd_norm", toy.hidden)
        for layer in range(toy.layers):
            for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                _project(file, dice, f"blk.{layer}.{name}", toy.hidden, toy.hidden)
            _project(file, dice, f"blk.{layer}.ffn_up", toy.feed_forward, toy.hidden)
            _project(file, dice, f"blk.{layer}.ffn_down", toy.hidden, toy.feed_forward)
            _norm(file, f"blk.{layer}.attn_output_norm", toy.hidden)
            _norm(file, f"blk.{layer}.layer_output_norm", toy.hidden)


def _project(file: ToyFile, dice: Dice, name: str, outputs: int, inputs: int) -> None:
    file.matrix(name, dice.matrix(outputs, inputs, 2.0))
    file.vector(name, dice.normal(outputs) * 0.1, ".bias")


def _norm(file: ToyFile, name: str, size: int) -> None:
    file.vector(name, np.ones(size))
    file.vector(name, np.zeros(size), ".bias")
