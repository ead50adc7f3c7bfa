"""The C structures of QNN's system interface that describe a context binary.

Their layout is that of QNN API 2.x as QAIRT 2.51 ships it; every structure begins with its version,
and a version that is not known here is refused by the reader.
"""

import ctypes
from typing import ClassVar

U32, U64 = ctypes.c_uint32, ctypes.c_uint64
TEXT, POINTER = ctypes.c_char_p, ctypes.c_void_p

DEFINED = 1
PER_TENSOR = 0

# numpy names of the element types that graphs take and give; fixed-point ones are stored plainly
ELEMENTS = {
    0x0008: "int8",
    0x0016: "int16",
    0x0032: "int32",
    0x0064: "int64",
    0x0108: "uint8",
    0x0116: "uint16",
    0x0132: "uint32",
    0x0164: "uint64",
    0x0216: "float16",
    0x0232: "float32",
    0x0308: "int8",
    0x0316: "int16",
    0x0332: "int32",
    0x0408: "uint8",
    0x0416: "uint16",
    0x0432: "uint32",
    0x0508: "bool",
}


class ScaleOffset(ctypes.Structure):
    """A linear encoding: value = (stored + offset) * scale."""

    _fields_: ClassVar = [("scale", ctypes.c_float), ("offset", ctypes.c_int32)]


class AxisEncoding(ctypes.Structure):
    """One encoding for each slice of an axis; here for its size alone."""

    _fields_: ClassVar = [
        ("bitwidth", U32),
        ("axis", ctypes.c_int32),
        ("count", U32),
        ("scales", POINTER),
        ("offsets", POINTER),
    ]


class EncodingUnion(ctypes.Union):
    """The encodings that a tensor may have."""

    _fields_: ClassVar = [("linear", ScaleOffset), ("axis", AxisEncoding)]


class Quantisation(ctypes.Structure):
    """How a tensor is encoded, if it is."""

    _fields_: ClassVar = [("defined", U32), ("kind", U32), ("encoding", EncodingUnion)]


class ClientBuffer(ctypes.Structure):
    """Memory of a tensor."""

    _fields_: ClassVar = [("data", POINTER), ("size", U32)]


class SparseParams(ctypes.Structure):
    """Of a sparse tensor."""

    _fields_: ClassVar = [("layout", U32), ("first", U32), ("second", U32)]


class TensorBody(ctypes.Structure):
    """A tensor's description; version 1 ends at `buffer`."""

    _fields_: ClassVar = [
        ("id", U32),
        ("name", TEXT),
        ("kind", U32),
        ("format", U32),
        ("element", U32),
        ("quantisation", Quantisation),
        ("rank", U32),
        ("dimensions", ctypes.POINTER(U32)),
        ("memory_kind", U32),
        ("buffer", ClientBuffer),
        ("dynamic", POINTER),
        ("sparse", SparseParams),
        ("produced", ctypes.c_uint8),
    ]


class Tensor(ctypes.Structure):
    """A tensor of version 1 or 2."""

    _fields_: ClassVar = [("version", U32), ("body", TensorBody)]


class GraphInfo(ctypes.Structure):
    """A graph of version 1 to 3, of which the beginning is the same."""

    _fields_: ClassVar = [
        ("version", U32),
        ("name", TEXT),
        ("input_count", U32),
        ("inputs", ctypes.POINTER(Tensor)),
        ("output_count", U32),
        ("outputs", ctypes.POINTER(Tensor)),
        ("updateable_count", U32),
        ("updateable", POINTER),
        ("blob_size", U32),
        ("blob", POINTER),
        ("start_op", U32),
        ("end_op", U32),
    ]


class Version(ctypes.Structure):
    """Three numbers."""

    _fields_: ClassVar = [("major", U32), ("minor", U32), ("patch", U32)]


class BinaryInfoOld(ctypes.Structure):
    """A context binary's description, version 1 and 2."""

    _fields_: ClassVar = [
        ("backend", U32),
        ("build", TEXT),
        ("core", Version),
        ("backend_version", Version),
        ("soc", TEXT),
        ("hardware_version", Version),
        ("blob_version", Version),
        ("hardware_size", U32),
        ("hardware", POINTER),
        ("blob_size", U64),
        ("tensor_count", U32),
        ("tensors", POINTER),
        ("graph_count", U32),
        ("graphs", POINTER),
    ]


class BinaryInfoNew(ctypes.Structure):
    """A context binary's description, version 3."""

    _fields_: ClassVar = [
        ("backend", U32),
        ("build", TEXT),
        ("core", Version),
        ("backend_version", Version),
        ("soc", TEXT),
        ("blob_version", Version),
        ("blob_size", U64),
        ("tensor_count", U32),
        ("tensors", POINTER),
        ("graph_count", U32),
        ("graphs", POINTER),
        ("platform", POINTER),
        ("metadata_size", U32),
        ("metadata", POINTER),
        ("soc_model", U32),
    ]


class BinaryUnion(ctypes.Union):
    """The versions of a description."""

    _fields_: ClassVar = [("old", BinaryInfoOld), ("new", BinaryInfoNew)]


class BinaryInfo(ctypes.Structure):
    """What `QnnSystemContext_getBinaryInfo` points to."""

    _fields_: ClassVar = [("version", U32), ("body", BinaryUnion)]
