"""The tiny decoder as ONNX graphs of fixed shapes, with the inputs and outputs of AI Hub bundles.

A graph takes `width` tokens at once and sees `context` of them: caches hold the `context - width`
tokens before, and what the graph adds to them are outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ci.qairt_bundles.quantise import GraphWriter, Ranges
from ci.qairt_bundles.shape import SHAPE, Shape
from ci.qairt_bundles.weights import Floats


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """One graph: its `layers` of the decoder, part `part` of `parts` (from 1)."""

    width: int
    context: int
    part: int = 1
    parts: int = 1

    @property
    def name(self) -> str:
        """As AI Hub names graphs."""
        phase = "token" if self.width == 1 else "prompt"
        return f"{phase}_ar{self.width}_cl{self.context}_{self.part}_of_{self.parts}"

    @property
    def layers(self) -> Sequence[int]:
        """The layers in this part; the parts share them evenly."""
        each = SHAPE.layers // self.parts
        return range((self.part - 1) * each, self.part * each)

    @property
    def first(self) -> bool:
        """Whether it begins with the token ids."""
        return self.part == 1

    @property
    def last(self) -> bool:
        """Whether it ends with the logits."""
        return self.part == self.parts


def build(spec: GraphSpec, weights: Mapping[str, Floats], ranges: Ranges | None) -> onnx.ModelProto:
    """The graph, quantised by `ranges`, or in floats without."""
    return _Decoder(spec, weights, ranges, SHAPE).model()


class _Decoder:
    def __init__(
        self, spec: GraphSpec, weights: Mapping[str, Floats], ranges: Ranges | None, shape: Shape
    ) -> None:
        self.spec = spec
        self.weights = weights
        self.shape = shape
        self.graph = GraphWriter(spec.name, ranges)

    def model(self) -> onnx.ModelProto:
        spec, shape, graph = self.spec, self.shape, self.graph
        width, half = spec.width, shape.head_width // 2
        if spec.first:
            ids = graph.whole_input("input_ids", [1, width])
            table = graph.weight("embedding", self.weights["embedding"])
            x = graph.op("Gather", [table, ids], "x", axis=0)
        else:
            x = graph.input(f"hidden_{spec.layers[0] - 1}", [1, width, shape.width])
        self.mask = graph.input("attention_mask", [1, 1, width, spec.context])
        self.cos = graph.input("position_ids_cos", [1, 1, width, half])
        self.sin = graph.input("position_ids_sin", [1, 1, width, half])
        for layer in spec.layers:
            x = self._attention(layer, x)
            x = self._mlp(layer, x, hidden=layer == spec.layers[-1] and not spec.last)
        if spec.last:
            head = graph.weight("head", self.weights["head"])
            normed = self._norm(x, "norm")
            graph.op("MatMul", [normed, head], "logits", output=[1, width, shape.vocabulary])
        return graph.model()

    def _norm(self, x: str, name: str) -> str:
        graph = self.graph
        squares = graph.op("Mul", [x, x], f"{name}.squares")
        mean = graph.op(
            "ReduceMean", [squares, graph.whole("axis", [-1])], f"{name}.mean", keepdims=1
        )
        epsilon = graph.weight("epsilon", np.array([self.shape.epsilon], np.float32))
        root = graph.op("Sqrt", [graph.op("Add", [mean, epsilon], f"{name}.sum")], f"{name}.root")
        scaled = graph.op("Div", [x, root], f"{name}.scaled")
        return graph.op("Mul", [scaled, graph.weight(name, self.weights[name])], f"{name}.out")

    def _project(self, layer: int, h: str, what: str) -> str:
        values = self.weights[f"layers.{layer}.{what}"]
        if what == "q":
            # the scale of attention is in the weights
            values = values / np.float32(self.shape.head_width**0.5)
        weight = self.graph.weight(f"layers.{layer}.{what}", values)
        return self.graph.op("MatMul", [h, weight], f"l{layer}.{what}")

    def _turned(self, x: str, name: str) -> str:
        """Rotary positions: the halves of a head turned into each other."""
        graph, half, whole = self.graph, self.shape.head_width // 2, self.shape.head_width
        axes = graph.whole("last", [3])
        a = graph.move(
            "Slice", [x, graph.whole("zero", [0]), graph.whole("half", [half]), axes], f"{name}.a"
        )
        b = graph.move(
            "Slice",
            [x, graph.whole("half", [half]), graph.whole("end", [whole]), axes],
            f"{name}.b",
        )
        first = graph.op(
            "Sub",
            [
                graph.op("Mul", [a, self.cos], f"{name}.a_cos"),
                graph.op("Mul", [b, self.sin], f"{name}.b_sin"),
            ],
            f"{name}.first",
        )
        second = graph.op(
            "Add",
            [
                graph.op("Mul", [b, self.cos], f"{name}.b_cos"),
                graph.op("Mul", [a, self.sin], f"{name}.a_sin"),
            ],
            f"{name}.second",
        )
        return graph.op("Concat", [first, second], f"{name}.turned", axis=3)

    def _shaped(self, x: str, shape: list[int], name: str) -> str:
        return self.graph.move("Reshape", [x, self.graph.whole(f"{name}.shape", shape)], name)

    def _attention(self, layer: int, x: str) -> str:
        graph, spec, shape, tag = self.graph, self.spec, self.shape, f"l{layer}"
        width, kv, group = spec.width, shape.kv_heads, shape.heads // shape.kv_heads
        size, past = shape.head_width, spec.context - spec.width
        h = self._norm(x, f"layers.{layer}.attention_norm")

        q = self._shaped(self._project(layer, h, "q"), [width, kv, group, size], f"{tag}.q4")
        q = graph.move("Transpose", [q], f"{tag}.q_heads", perm=[1, 2, 0, 3])
        q = self._shaped(self._turned(q, f"{tag}.q"), [kv, 1, group * width, size], f"{tag}.q_rows")

        k = self._shaped(self._project(layer, h, "k"), [width, kv, 1, size], f"{tag}.k4")
        k = graph.move("Transpose", [k], f"{tag}.k_heads", perm=[1, 2, 0, 3])
        k = graph.op(
            "Transpose",
            [self._turned(k, f"{tag}.k")],
            f"past_key_{layer}_out",
            output=[kv, 1, size, width],
            perm=[0, 1, 3, 2],
        )
        v = self._shaped(self._project(layer, h, "v"), [width, kv, 1, size], f"{tag}.v4")
        v = graph.op(
            "Transpose",
            [v],
            f"past_value_{layer}_out",
            output=[kv, 1, width, size],
            perm=[1, 2, 0, 3],
        )
        keys = graph.input(f"past_key_{layer}_in", [kv, 1, size, past])
        values = graph.input(f"past_value_{layer}_in", [kv, 1, past, size])
        keys = graph.move("Concat", [keys, k], f"past_key_{layer}_all", axis=3)
        values = graph.move("Concat", [values, v], f"past_value_{layer}_all", axis=2)

        scores = graph.op("MatMul", [q, keys], f"{tag}.scores")
        scores = self._shaped(scores, [kv, group, width, spec.context], f"{tag}.scores4")
        scores = graph.op("Add", [scores, self.mask], f"{tag}.masked")
        shares = graph.op("Softmax", [scores], f"{tag}.shares", axis=-1)
        shares = self._shaped(shares, [kv, 1, group * width, spec.context], f"{tag}.shares_rows")
        mixed = graph.op("MatMul", [shares, values], f"{tag}.mixed")
        mixed = self._shaped(mixed, [kv, group, width, size], f"{tag}.mixed4")
        mixed = graph.move("Transpose", [mixed], f"{tag}.mixed_heads", perm=[2, 0, 1, 3])
        mixed = self._shaped(mixed, [1, width, shape.heads * size], f"{tag}.mixed_row")
        return graph.op("Add", [x, self._project(layer, mixed, "o")], f"{tag}.attended")

    def _mlp(self, layer: int, x: str, hidden: bool) -> str:
        graph, tag = self.graph, f"l{layer}"
        h = self._norm(x, f"layers.{layer}.mlp_norm")
        gate = self._project(layer, h, "gate")
        gate = graph.op("Mul", [gate, graph.op("Sigmoid", [gate], f"{tag}.sigmoid")], f"{tag}.silu")
        both = graph.op("Mul", [gate, self._project(layer, h, "up")], f"{tag}.both")
        down = self._project(layer, both, "down")
        shape = [1, self.spec.width, self.shape.width] if hidden else None
        return graph.op("Add", [x, down], f"hidden_{layer}", output=shape)
