"""Graphs of an invented decoder, as its binaries would describe them."""

from dataclasses import replace
from typing import Any

from geniex_runtimes.qairt.inspection import GraphFacts, TensorFacts

HEADS, SIZE, VOCABULARY = 2, 4, 10


def tensor(name: str, *shape: int, dtype: str = "uint16", **encoding: Any) -> TensorFacts:
    values: dict[str, Any] = {"scale": 0.5, "offset": -3} | encoding
    if dtype in ("int32", "float16", "float32"):
        values = {"scale": None, "offset": None}
    return TensorFacts(name, shape, dtype, **values)


def graph(
    width: int,
    context: int,
    layers: range = range(1),
    *,
    first: bool = True,
    last: bool = True,
    kept: str = "uint8",
) -> GraphFacts:
    """One part of it: `first` takes tokens, `last` gives logits, others hidden states."""
    name = f"ar{width}_cl{context}_{layers.start}"
    inputs = [
        tensor("attention_mask", 1, 1, width, context),
        tensor("position_ids_cos", 1, 1, width, SIZE // 2),
        tensor("position_ids_sin", 1, 1, width, SIZE // 2),
    ]
    if first:
        inputs.insert(0, tensor("input_ids", 1, width, dtype="int32"))
    else:
        inputs.append(tensor(f"hidden_{layers.start}", 1, width, 8))
    end = tensor("logits", 1, width, VOCABULARY)
    outputs = [end if last else tensor(f"hidden_{layers.stop}", 1, width, 8)]
    for layer in layers:
        for side, length in (("in", context - width), ("out", width)):
            kinds = {
                f"past_key_{layer}_{side}": (HEADS, 1, SIZE, length),
                f"past_value_{layer}_{side}": (HEADS, 1, length, SIZE),
            }
            made = [tensor(key, *shape, dtype=kept) for key, shape in kinds.items()]
            (inputs if side == "in" else outputs).extend(made)
    return GraphFacts(name, tuple(inputs), tuple(outputs))


def changed(graph: GraphFacts, which: str, **values: Any) -> GraphFacts:
    """The same graph with one tensor changed."""

    def side(tensors: tuple[TensorFacts, ...]) -> tuple[TensorFacts, ...]:
        return tuple(replace(one, **values) if one.name == which else one for one in tensors)

    return GraphFacts(graph.name, side(graph.inputs), side(graph.outputs))


def without(graph: GraphFacts, name: str) -> GraphFacts:
    """The same graph without one tensor."""
    inputs, outputs = (
        tuple(one for one in side if one.name != name) for side in (graph.inputs, graph.outputs)
    )
    return GraphFacts(graph.name, inputs, outputs)
