"""A graph of a context binary as an ONNX model of one node, which onnxruntime can load.

The node is an `EPContext` of com.microsoft: it names the binary, and its own name is the graph's.
The model is written as protobuf by hand: four small messages, and no dependency on `onnx`.
"""

from collections.abc import Iterable

from geniex_runtimes.qairt.inspection import GraphFacts, TensorFacts

# onnx.TensorProto.DataType
_ELEMENTS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "uint32": 12,
}
_DOMAIN = "com.microsoft"
_IR_VERSION, _OPSET = 10, 21
_INT, _STRING = 2, 3  # onnx.AttributeProto.AttributeType


class ElementError(ValueError):
    """Raised for a tensor whose elements ONNX does not have."""


def wrap(graph: GraphFacts, binary: str) -> bytes:
    """The model for one graph of the binary of this file name. Raises ElementError."""
    attributes = [
        _attribute("embed_mode", 0),
        _attribute("ep_cache_context", binary),
        _attribute("main_context", 1),
        _attribute("partition_name", graph.name),
        _attribute("source", "Qnn"),
    ]
    node = b"".join(
        [
            *(_text(1, one.name) for one in graph.inputs),
            *(_text(2, one.name) for one in graph.outputs),
            _text(3, graph.name),
            _text(4, "EPContext"),
            *(_nested(5, one) for one in attributes),
            _text(7, _DOMAIN),
        ]
    )
    body = b"".join(
        [
            _nested(1, node),
            _text(2, "qnn"),
            *(_nested(11, _value(one)) for one in graph.inputs),
            *(_nested(12, _value(one)) for one in graph.outputs),
        ]
    )
    opsets = [_number(2, _OPSET), _text(1, _DOMAIN) + _number(2, 1)]
    return b"".join(
        [
            _number(1, _IR_VERSION),
            _text(2, "geniex"),
            _nested(7, body),
            *(_nested(8, one) for one in opsets),
        ]
    )


def _value(tensor: TensorFacts) -> bytes:
    """A ValueInfoProto: name, elements and shape."""
    element = _ELEMENTS.get(tensor.dtype)
    if element is None:
        raise ElementError(f"`{tensor.name}` has elements of type {tensor.dtype}")
    shape = b"".join(_nested(1, _number(1, size)) for size in tensor.shape)
    return _text(1, tensor.name) + _nested(2, _nested(1, _number(1, element) + _nested(2, shape)))


def _attribute(name: str, value: int | str) -> bytes:
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _number(20, _STRING)
    return _text(1, name) + _number(3, value) + _number(20, _INT)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _nested(field, value.encode())


def _nested(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    return bytes(_septets(value))


def _septets(value: int) -> Iterable[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
