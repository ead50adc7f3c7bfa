"""Toys of architecture gemma4, and gemma4-assistant drafts that read the target's KV cells."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.toys.table import Table, table
from tests.toys.toyfile import Array, Dice, ToyFile, Value
from tests.toys.vocabulary import Vocabulary, vocabulary

TARGET, DRAFT = "gemma4", "gemma4-assistant"


@dataclass(frozen=True)
class Shape:
    """Sizes of a pair. The target's layers are `sliding, sliding, full` repeated.

    The last `shared_kv` layers of the target use the cells of the layers before them.
    """

    hidden: int = 128
    layers: int = 6
    feed_forward: int = 256
    draft_hidden: int = 64
    draft_layers: int = 2
    draft_feed_forward: int = 128
    heads: int = 4
    kv_heads: int = 1
    head: int = 64
    head_sliding: int = 32
    window: int = 64
    shared_kv: int = 3
    context: int = 8192
    words: Vocabulary = field(default_factory=vocabulary)


@dataclass(frozen=True)
class Pair:
    """How a pair behaves: `noise` of the target's blocks, and what of its table the draft knows.

    `known` is the part of the cycle that the draft has right; None is a draft of random weights.
    """

    shape: Shape = Shape()
    noise: float = 0.0
    known: float | None = 1.0
    sharpness: float = 0.5
    seed: int = 0
    weights: str = "Q8_0"

    def table(self) -> Table:
        """The target's table; the same for every file of the pair."""
        shape = self.shape
        return table(Dice(self.seed), shape.words, shape.hidden, shape.draft_hidden)


def write_target(path: Path, pair: Pair) -> None:
    """A target whose answers follow the pair's table as far as its noise lets them."""
    shape, dice = pair.shape, Dice(pair.seed + 1)
    known = pair.table()
    sliding = [layer % 3 != 2 for layer in range(shape.layers)]
    own_kv = shape.layers - shape.shared_kv
    with ToyFile(path, TARGET, pair.weights) as file:
        file.facts(_facts(shape, shape.hidden, shape.feed_forward, sliding))
        file.facts({"attention.shared_kv_layers": shape.shared_kv})
        file.vocabulary(shape.words)
        # the graph multiplies embeddings by the root of the hidden size
        file.matrix("token_embd", known.embeddings / np.sqrt(shape.hidden))
        file.matrix("output", known.readout(pair.sharpness))
        file.vector("output_norm", np.ones(shape.hidden))
        file.vector("rope_freqs", _frequencies(shape.head))
        for layer, slides in enumerate(sliding):
            block = _Block(file, dice, shape, layer, shape.hidden, slides)
            block.attention(pair.noise)
            if layer < own_kv:
                block.keys_and_values()
            block.feed_forward(shape.feed_forward, pair.noise)


def write_draft(path: Path, pair: Pair, *, hidden_out: int | None = None) -> None:
    """The pair's draft; `hidden_out` overrides the target's hidden size, to make a wrong one."""
    shape, dice = pair.shape, Dice(pair.seed + 2)
    hidden, target_hidden = shape.draft_hidden, hidden_out or shape.hidden
    sliding = [True] * (shape.draft_layers - 1) + [False]
    random = pair.known is None
    with ToyFile(path, DRAFT, pair.weights) as file:
        file.facts(_facts(shape, hidden, shape.draft_feed_forward, sliding))
        file.facts(
            {
                "embedding_length_out": target_hidden,
                "nextn_predict_layers": shape.draft_layers,
                "attention.shared_kv_layers": shape.draft_layers,
            }
        )
        file.vocabulary(shape.words)
        file.matrix("token_embd", _draft_embeddings(pair, dice))
        file.vector("output_norm", np.ones(hidden))
        file.vector("rope_freqs", _frequencies(shape.head))
        entry = dice.matrix(hidden, 2 * target_hidden)
        if not random:
            # the token's leading dimensions, and nothing of the target's state
            entry = np.eye(hidden, 2 * target_hidden, dtype=np.float32)
        file.matrix("nextn.pre_projection", entry)
        file.matrix("nextn.post_projection", dice.matrix(target_hidden, hidden))
        for layer, slides in enumerate(sliding):
            block = _Block(file, dice, shape, layer, hidden, slides)
            block.attention(float(random))
            block.feed_forward(shape.draft_feed_forward, float(random))


def _draft_embeddings(pair: Pair, dice: Dice) -> Array:
    """The draft's own embeddings, which are its output rows."""
    shape = pair.shape
    if pair.known is None:
        return dice.normal(shape.words.size, shape.draft_hidden)
    return pair.table().partial_readout(shape.draft_hidden, pair.sharpness, pair.known)


def _facts(shape: Shape, hidden: int, feed_forward: int, sliding: list[bool]) -> dict[str, Value]:
    return {
        "context_length": shape.context,
        "embedding_length": hidden,
        "block_count": len(sliding),
        "feed_forward_length": feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head,
        "attention.value_length": shape.head,
        "attention.key_length_swa": shape.head_sliding,
        "attention.value_length_swa": shape.head_sliding,
        "attention.sliding_window": shape.window,
        "attention.sliding_window_pattern": sliding,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "rope.dimension_count": shape.head,
        "rope.dimension_count_swa": shape.head_sliding,
        "embedding_length_per_layer_input": 0,
    }


def _frequencies(head: int) -> list[float]:
    """Full layers rotate a quarter of a head; the huge factors stop the rest."""
    return [1.0] * (head // 8) + [1e30] * (head // 2 - head // 8)


@dataclass(frozen=True)
class _Block:
    """One layer's tensors, written in parts."""

    file: ToyFile
    dice: Dice
    shape: Shape
    layer: int
    hidden: int
    slides: bool

    @property
    def _head(self) -> int:
        return self.shape.head_sliding if self.slides else self.shape.head

    def _name(self, part: str) -> str:
        return f"blk.{self.layer}.{part}"

    def _project(self, part: str, outputs: int, inputs: int) -> None:
        self.file.matrix(self._name(part), self.dice.matrix(outputs, inputs))

    def attention(self, loudness: float) -> None:
        """Queries and output; the norm behind them scales what the layer adds."""
        width = self.shape.heads * self._head
        self.file.vector(self._name("attn_norm"), np.ones(self.hidden))
        self._project("attn_q", width, self.hidden)
        self._project("attn_output", self.hidden, width)
        self.file.vector(self._name("attn_q_norm"), np.ones(self._head))
        self.file.vector(self._name("post_attention_norm"), np.full(self.hidden, loudness))
        self.file.vector(self._name("layer_output_scale"), np.ones(1))

    def keys_and_values(self) -> None:
        """What fills the cells; full layers take their keys for values too."""
        width = self.shape.kv_heads * self._head
        self._project("attn_k", width, self.hidden)
        self.file.vector(self._name("attn_k_norm"), np.ones(self._head))
        if self.slides:
            self._project("attn_v", width, self.hidden)

    def feed_forward(self, width: int, loudness: float) -> None:
        """The gated network; the norm behind it scales what the layer adds."""
        self.file.vector(self._name("ffn_norm"), np.ones(self.hidden))
        self._project("ffn_gate", width, self.hidden)
        self._project("ffn_up", width, self.hidden)
        self._project("ffn_down", self.hidden, width)
        self.file.vector(self._name("post_ffw_norm"), np.full(self.hidden, loudness))
