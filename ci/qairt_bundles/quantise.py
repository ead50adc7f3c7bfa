"""Writing an ONNX graph whose every value is quantised: 16-bit activations, 8-bit weights and KV.

Inputs and outputs are the quantised integers themselves, so that a compiled graph keeps them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ci.qairt_bundles.weights import is_matrix, round_weight

MASKED = -50.0
# tensor -> smallest and largest value seen
Ranges: TypeAlias = Mapping[str, tuple[float, float]]
# what needs no looking at
_FIXED = {
    "attention_mask": (MASKED, 0.0),
    "position_ids_cos": (-1.0, 1.0),
    "position_ids_sin": (-1.0, 1.0),
}
_OPSET, _IR = 21, 10


@dataclass(frozen=True, slots=True)
class Encoding:
    """value = (stored - zero) * scale, stored in `dtype`."""

    scale: np.float32
    zero: int
    dtype: Any

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values as they are stored."""
        top = np.iinfo(self.dtype).max
        return np.clip(np.round(values / self.scale) + self.zero, 0, top).astype(self.dtype)

    def decode(self, stored: NDArray[Any]) -> NDArray[np.float32]:
        """Stored integers as values."""
        return (stored.astype(np.float32) - self.zero) * self.scale


def encoding_of(name: str, ranges: Ranges) -> Encoding:
    """A value's encoding: 8 bits around 0 for the caches, 16 bits for all else."""
    if name.startswith("past_"):
        # in, out and both together share one
        stem = name.rpartition("_")[0]
        reach = max(abs(edge) for edge in ranges[f"{stem}_out"])
        return Encoding(np.float32(max(reach, 1e-3) / 127), 128, np.uint8)
    low, high = _FIXED.get(name) or ranges[name]
    low, high = min(low, 0.0), max(high, low + 1e-6, 1e-6)
    scale = np.float32((high - low) / 65535)
    return Encoding(scale, int(np.clip(round(-low / float(scale)), 0, 65535)), np.uint16)


class GraphWriter:
    """Builds a graph node by node; without ranges everything stays in floats.

    Every value has a name of its own, which is the same in graphs of other shapes.
    """

    def __init__(self, name: str, ranges: Ranges | None) -> None:
        self.name = name
        self.ranges = ranges
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._encodings: dict[str, Encoding] = {}
        self._floats: dict[str, str] = {}

    def whole_input(self, name: str, shape: Sequence[int]) -> str:
        """An input of 32-bit integers."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.INT32, shape))
        return name

    def input(self, name: str, shape: Sequence[int]) -> str:
        """An input of values."""
        if self.ranges is None:
            self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
            return name
        encoding = encoding_of(name, self.ranges)
        self._inputs.append(self._stored(name, encoding, shape))
        self._encodings[name] = encoding
        self._decode(name, name)
        return name

    def whole(self, name: str, values: Sequence[int]) -> str:
        """A constant of 64-bit integers: a shape or an axis."""
        self._constant(name, np.array(values, np.int64))
        return name

    def weight(self, name: str, values: NDArray[np.float32]) -> str:
        """A constant of values: 8 bits for what is multiplied with, 16 for the rest."""
        if self.ranges is None:
            self._constant(name, values)
            return name
        if name in self._floats:
            return name
        if is_matrix(name) and values.ndim == 2:
            stored, scale = round_weight(name, values)
            encoding = Encoding(scale, 0, np.int8)
        else:
            edges = (float(values.min()), float(values.max()))
            encoding = encoding_of(name, {name: edges})
            stored = encoding.encode(values)
        self._constant(f"{name}_stored", stored)
        self._encodings[name] = encoding
        self._decode(name, f"{name}_stored")
        return name

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        name: str,
        *,
        output: Sequence[int] | None = None,
        **attributes: Any,
    ) -> str:
        """A node that computes `name`; `output` is its shape where it leaves the graph."""
        encoding = encoding_of(name, self.ranges) if self.ranges is not None else None
        return self._emit(kind, inputs, name, encoding, output, attributes)

    def move(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node that only moves values, which keep their encoding."""
        encoding = self._encodings[inputs[0]] if self.ranges is not None else None
        return self._emit(kind, inputs, name, encoding, None, attributes)

    def model(self) -> onnx.ModelProto:
        """The finished graph, checked."""
        used = {name for node in self._nodes for name in node.input}
        nodes = [
            node
            for node in self._nodes
            if node.op_type != "DequantizeLinear" or node.output[0] in used
        ]
        graph = helper.make_graph(
            nodes, self.name, self._inputs, self._outputs, list(self._initializers.values())
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
        onnx.checker.check_model(model)
        return model

    def _emit(
        self,
        kind: str,
        inputs: Sequence[str],
        name: str,
        encoding: Encoding | None,
        output: Sequence[int] | None,
        attributes: dict[str, Any],
    ) -> str:
        fed = [self._floats.get(one, one) for one in inputs]
        raw = name if encoding is None else f"{name}_raw"
        self._nodes.append(helper.make_node(kind, fed, [raw], name=f"{name}_node", **attributes))
        if encoding is None:
            if output is not None:
                info = helper.make_tensor_value_info(name, TensorProto.FLOAT, output)
                self._outputs.append(info)
            return name
        self._encodings[name] = encoding
        stored = name if output is not None else f"{name}_stored"
        if output is not None:
            self._outputs.append(self._stored(name, encoding, output))
        parameters = self._parameters(name)
        self._nodes.append(
            helper.make_node("QuantizeLinear", [raw, *parameters], [stored], name=f"{name}_q")
        )
        self._decode(name, stored)
        return name

    def _decode(self, name: str, stored: str) -> None:
        floats = f"{name}_floats"
        self._nodes.append(
            helper.make_node(
                "DequantizeLinear", [stored, *self._parameters(name)], [floats], name=f"{name}_dq"
            )
        )
        self._floats[name] = floats

    def _parameters(self, name: str) -> list[str]:
        encoding = self._encodings[name]
        self._constant(f"{name}_scale", np.asarray(encoding.scale, np.float32))
        self._constant(f"{name}_zero", np.asarray(encoding.zero, encoding.dtype))
        return [f"{name}_scale", f"{name}_zero"]

    def _constant(self, name: str, values: NDArray[Any]) -> None:
        self._initializers[name] = numpy_helper.from_array(np.asarray(values), name)

    def _stored(self, name: str, encoding: Encoding, shape: Sequence[int]) -> onnx.ValueInfoProto:
        kinds = {np.uint8: TensorProto.UINT8, np.uint16: TensorProto.UINT16}
        return helper.make_tensor_value_info(name, kinds[encoding.dtype], shape)
