"""Asking QNN's system library what a context binary holds. It may crash: for a child process.

`python -m geniex_runtimes.qairt.qnn_system LIBRARY FILE...` prints the answers as JSON, a line for
each file; `inspection` runs that.
"""

import ctypes
import json
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geniex_runtimes.qairt import qnn_structs as qnn

# words of the provider's structure before its table: id, name, version
_HEAD = 4
_CREATE, _BINARY_INFO = 0, 1
_KNOWN_TENSORS, _KNOWN_GRAPHS = (1, 2), (1, 2, 3)
_MOST, _MOST_AXES = 1 << 16, 32


class RefusedError(Exception):
    """Raised when a call of QNN's fails."""


def describe(library: Path, binary: Path) -> dict[str, Any]:
    """The facts about a context binary.

    Raises OSError, RefusedError where QNN does not take it for one, and ValueError for a
    description whose form is not known here.
    """
    table = _table(library)
    context, size = ctypes.c_void_p(), qnn.U64()
    create = ctypes.CFUNCTYPE(qnn.U64, qnn.POINTER)(_function(table, _CREATE))
    _check(create(ctypes.addressof(context)), "create")
    with binary.open("rb") as file:
        # copied on writing, so that only what is read is in memory; the process unmaps it
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = (ctypes.c_char * len(data)).from_buffer(data)
    found = ctypes.POINTER(qnn.BinaryInfo)()
    kinds = (qnn.POINTER, qnn.POINTER, qnn.U64, qnn.POINTER, qnn.POINTER)
    ask = ctypes.CFUNCTYPE(qnn.U64, *kinds)(_function(table, _BINARY_INFO))
    answer = ask(
        context, ctypes.addressof(start), len(data), ctypes.addressof(found), ctypes.addressof(size)
    )
    _check(answer, "getBinaryInfo")
    return _binary(found.contents)


def _table(library: Path) -> int:
    loaded = ctypes.CDLL(str(library))
    entry = loaded.QnnSystemInterface_getProviders
    entry.restype = qnn.U64
    providers, count = ctypes.POINTER(ctypes.c_void_p)(), qnn.U32()
    _check(entry(ctypes.byref(providers), ctypes.byref(count)), "getProviders")
    if not count.value or not providers[0]:
        raise ValueError("the library offers no interface")
    return int(providers[0])


def _function(table: int, place: int) -> int:
    return qnn.U64.from_address(table + 8 * (_HEAD + place)).value


def _check(answer: int, what: str) -> None:
    if answer:
        raise RefusedError(f"QNN's {what} failed with {answer & 0xFFFF}")


def _binary(info: qnn.BinaryInfo) -> dict[str, Any]:
    if info.version not in (1, 2, 3):
        raise ValueError(f"its description has version {info.version}, which is not known here")
    new = info.version == 3
    body = info.body.new if new else info.body.old
    return {
        "build": _text(body.build),
        "soc_model": body.soc_model if new else None,
        "blob_size": body.blob_size,
        "graphs": [_graph(graph) for graph in _graphs(body.graphs, body.graph_count)],
    }


def _graphs(address: int | None, count: int) -> Iterator[qnn.GraphInfo]:
    if not address:
        raise ValueError("its description has no graphs")
    # of every version, an entry has the room of the largest one
    for at in range(_count(count)):
        graph = qnn.GraphInfo.from_address(address + at * ctypes.sizeof(qnn.GraphInfo))
        if graph.version not in _KNOWN_GRAPHS:
            raise ValueError(f"a graph has version {graph.version}, which is not known here")
        yield graph


def _graph(graph: qnn.GraphInfo) -> dict[str, Any]:
    inputs, outputs = _count(graph.input_count), _count(graph.output_count)
    return {
        "name": _text(graph.name),
        "inputs": [_tensor(graph.inputs[at]) for at in range(inputs)],
        "outputs": [_tensor(graph.outputs[at]) for at in range(outputs)],
    }


def _count(stated: int, most: int = _MOST) -> int:
    """A number of things that follow; one that makes no sense is no number to count to."""
    if stated > most:
        raise ValueError(f"its description has {stated} of what has {most} at most")
    return stated


def _tensor(tensor: qnn.Tensor) -> dict[str, Any]:
    if tensor.version not in _KNOWN_TENSORS:
        raise ValueError(f"a tensor has version {tensor.version}, which is not known here")
    body = tensor.body
    facts = {
        "name": _text(body.name),
        "shape": [body.dimensions[at] for at in range(_count(body.rank, _MOST_AXES))],
        "dtype": qnn.ELEMENTS.get(body.element, f"{body.element:#x}"),
        "scale": None,
        "offset": None,
    }
    quantisation = body.quantisation
    if quantisation.defined == qnn.DEFINED and quantisation.kind == qnn.PER_TENSOR:
        linear = quantisation.encoding.linear
        facts |= {"scale": linear.scale, "offset": linear.offset}
    return facts


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def main() -> None:
    """A line of JSON for each file: its `facts`, or why it is `refused` or `unknown`."""
    library = Path(sys.argv[1])
    for binary in map(Path, sys.argv[2:]):
        try:
            answer: dict[str, Any] = {"facts": describe(library, binary)}
        except RefusedError as exc:
            answer = {"refused": str(exc)}
        except (OSError, ValueError, AttributeError) as exc:
            answer = {"unknown": str(exc)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
