"""Toys with next-token heads in their own file.

qwen35 (one head, hybrid) and mimo2 (chained heads) can use them. exaone4 cannot: llama.cpp keeps
its heads and has nothing that runs them.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.toys.table import table
from tests.toys.toyfile import Dice, ToyFile
from tests.toys.vocabulary import Vocabulary, vocabulary

QWEN35, MIMO2, EXAONE4 = "qwen35", "mimo2", "exaone4"


@dataclass(frozen=True)
class Toy:
    """Sizes and behaviour: `noise` of the blocks, `blur` of the heads' view of the last token.

    With `hollow` the file declares its heads and does not have them.
    """

    heads_inside: int = 1
    noise: float = 0.5
    blur: float = 0.2
    sharpness: float = 0.5
    seed: int = 1
    hollow: bool = False
    hidden: int = 128
    layers: int = 4
    feed_forward: int = 256
    heads: int = 4
    kv_heads: int = 2
    head: int = 32
    context: int = 8192
    words: Vocabulary = field(default_factory=vocabulary)

    @property
    def blocks(self) -> int:
        """All blocks, those of the heads included."""
        return self.layers + self.heads_inside


class _Writer:
    """One toy's tensors, written in parts."""

    def __init__(self, file: ToyFile, toy: Toy) -> None:
        self.file = file
        self.toy = toy
        self.dice = Dice(toy.seed)

    def common(self) -> None:
        """Sizes, tokenizer, and the table in embeddings and output."""
        toy = self.toy
        self.file.facts(
            {
                "context_length": toy.context,
                "embedding_length": toy.hidden,
                "block_count": toy.blocks,
                "feed_forward_length": toy.feed_forward,
                "attention.head_count": toy.heads,
                "attention.head_count_kv": toy.kv_heads,
                "attention.key_length": toy.head,
                "attention.value_length": toy.head,
                "attention.layer_norm_rms_epsilon": 1e-6,
                "nextn_predict_layers": toy.heads_inside,
            }
        )
        self.file.vocabulary(toy.words)
        known = table(self.dice, toy.words, toy.hidden, toy.hidden)
        self.file.matrix("token_embd", known.embeddings)
        self.file.matrix("output", known.readout(toy.sharpness))
        self.file.vector("output_norm", np.ones(toy.hidden))

    def project(self, name: str, outputs: int, inputs: int, scale: float = 1.0) -> None:
        self.file.matrix(name, self.dice.matrix(outputs, inputs, scale))

    def ones(self, name: str, size: int) -> None:
        self.file.vector(name, np.ones(size))

    def feed_forward(self, block: str) -> None:
        """The gated network."""
        toy = self.toy
        self.project(f"{block}.ffn_gate", toy.feed_forward, toy.hidden)
        self.project(f"{block}.ffn_up", toy.feed_forward, toy.hidden)
        self.project(f"{block}.ffn_down", toy.hidden, toy.feed_forward, toy.noise)

    def head(self, block: str) -> None:
        """What makes a block a next-token head: it sees the token, blurred, and not the state."""
        if self.toy.hollow:
            return
        hidden = self.toy.hidden
        blurred = self.dice.normal(hidden, 2 * hidden) * self.toy.blur
        view = np.eye(hidden, 2 * hidden, dtype=np.float32) + blurred
        self.file.matrix(f"{block}.nextn.eh_proj", view)
        self.ones(f"{block}.nextn.enorm", hidden)
        self.ones(f"{block}.nextn.hnorm", hidden)


def write_qwen35(path: Path, toy: Toy) -> None:
    """Three recurrent layers, one of attention, and the heads."""
    state, groups, ranks = 16, 2, 4
    with ToyFile(path, QWEN35) as file:
        writer = _Writer(file, toy)
        writer.common()
        file.facts(
            {
                "rope.freq_base": 1e7,
                "rope.dimension_count": toy.head // 2,
                "rope.dimension_sections": [4, 2, 2, 0],
                "ssm.conv_kernel": 4,
                "ssm.inner_size": state * ranks,
                "ssm.state_size": state,
                "ssm.time_step_rank": ranks,
                "ssm.group_count": groups,
                "full_attention_interval": 4,
            }
        )
        for number in range(toy.blocks):
            block = f"blk.{number}"
            writer.ones(f"{block}.attn_norm", toy.hidden)
            writer.ones(f"{block}.post_attention_norm", toy.hidden)
            if number >= toy.layers or number % 4 == 3:
                _gated_attention(writer, block)
            else:
                _recurrence(writer, block, state, groups, ranks)
            writer.feed_forward(block)
            if number >= toy.layers:
                writer.head(block)
                if not toy.hollow:
                    writer.ones(f"{block}.nextn.shared_head_norm", toy.hidden)


def _gated_attention(writer: _Writer, block: str) -> None:
    """Queries come with a gate of the same width."""
    toy = writer.toy
    writer.project(f"{block}.attn_q", 2 * toy.heads * toy.head, toy.hidden)
    writer.project(f"{block}.attn_k", toy.kv_heads * toy.head, toy.hidden)
    writer.project(f"{block}.attn_v", toy.kv_heads * toy.head, toy.hidden)
    writer.project(f"{block}.attn_output", toy.hidden, toy.heads * toy.head, toy.noise)
    writer.ones(f"{block}.attn_q_norm", toy.head)
    writer.ones(f"{block}.attn_k_norm", toy.head)


def _recurrence(writer: _Writer, block: str, state: int, groups: int, ranks: int) -> None:
    """A gated delta-net layer: `groups` keys and `ranks` values of `state` each."""
    hidden, dice, file = writer.toy.hidden, writer.dice, writer.file
    keys, values = state * groups, state * ranks
    writer.project(f"{block}.attn_qkv", 2 * keys + values, hidden)
    writer.project(f"{block}.attn_gate", values, hidden)
    file.vector(f"{block}.ssm_conv1d", dice.normal(2 * keys + values, 4) / 2)
    file.vector(f"{block}.ssm_dt", dice.normal(ranks) / 2, ".bias")
    # what is forgotten per step, as the logarithm
    file.vector(f"{block}.ssm_a", -np.abs(dice.normal(ranks)) / 2 - 0.1, "")
    writer.project(f"{block}.ssm_beta", ranks, hidden)
    writer.project(f"{block}.ssm_alpha", ranks, hidden)
    writer.ones(f"{block}.ssm_norm", state)
    writer.project(f"{block}.ssm_out", hidden, values, writer.toy.noise)


def write_mimo2(path: Path, toy: Toy) -> None:
    """Sliding and full attention in turn, and heads that are chained one behind the other."""
    with ToyFile(path, MIMO2) as file:
        writer = _Writer(file, toy)
        writer.common()
        file.facts(
            {
                "rope.freq_base": 1e6,
                "rope.freq_base_swa": 1e4,
                "rope.dimension_count": toy.head,
                "expert_feed_forward_length": toy.feed_forward,
                "attention.sliding_window": 64,
                "attention.sliding_window_pattern": [
                    block >= toy.layers or block % 2 == 0 for block in range(toy.blocks)
                ],
            }
        )
        width = (toy.heads + 2 * toy.kv_heads) * toy.head
        for number in range(toy.blocks):
            block = f"blk.{number}"
            writer.ones(f"{block}.attn_norm", toy.hidden)
            writer.ones(f"{block}.ffn_norm", toy.hidden)
            writer.project(f"{block}.attn_qkv", width, toy.hidden)
            writer.project(f"{block}.attn_output", toy.hidden, toy.heads * toy.head, toy.noise)
            writer.feed_forward(block)
            if number >= toy.layers:
                writer.head(block)


def write_exaone4(path: Path, toy: Toy) -> None:
    """Full attention only, each layer normed behind itself, and heads that nothing runs."""
    with ToyFile(path, EXAONE4) as file:
        writer = _Writer(file, toy)
        writer.common()
        file.facts({"rope.freq_base": 1e6, "rope.dimension_count": toy.head})
        for number in range(toy.blocks):
            block = f"blk.{number}"
            writer.project(f"{block}.attn_q", toy.heads * toy.head, toy.hidden)
            writer.project(f"{block}.attn_k", toy.kv_heads * toy.head, toy.hidden)
            writer.project(f"{block}.attn_v", toy.kv_heads * toy.head, toy.hidden)
            writer.project(f"{block}.attn_output", toy.hidden, toy.heads * toy.head)
            writer.ones(f"{block}.attn_q_norm", toy.head)
            writer.ones(f"{block}.attn_k_norm", toy.head)
            file.vector(f"{block}.post_attention_norm", np.full(toy.hidden, toy.noise))
            writer.feed_forward(block)
            file.vector(f"{block}.post_ffw_norm", np.full(toy.hidden, toy.noise))
            if number >= toy.layers:
                writer.head(block)
