"""Models around the graphs of context binaries, and where their facts come from."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.device import installed_libraries
from geniex_runtimes.qairt.graph_facts import described, shards_of
from geniex_runtimes.qairt.inspection import GraphFacts
from geniex_runtimes.qairt.wrapper import ElementError, wrap
from tests.geniex_runtimes.qairt.graphs import changed, graph
from tests.qairt_bundles import QairtBundles


def test_a_graph_becomes_a_model_of_one_node() -> None:
    facts = graph(16, 4096, kept="float16")
    model = onnx.load_from_string(wrap(facts, "part_1_of_2.bin"))
    (node,) = model.graph.node
    assert (node.op_type, node.domain, node.name) == ("EPContext", "com.microsoft", facts.name)
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    assert attributes == {
        "embed_mode": 0,
        "ep_cache_context": b"part_1_of_2.bin",
        "main_context": 1,
        "partition_name": facts.name.encode(),
        "source": b"Qnn",
    }
    assert list(node.input) == [one.name for one in facts.inputs]
    assert list(node.output) == [one.name for one in facts.outputs]
    kinds = {
        "uint16": TensorProto.UINT16,
        "int32": TensorProto.INT32,
        "float16": TensorProto.FLOAT16,
    }
    for values, tensors in ((model.graph.input, facts.inputs), (model.graph.output, facts.outputs)):
        for value, tensor in zip(values, tensors, strict=True):
            kind = value.type.tensor_type
            assert (value.name, kind.elem_type) == (tensor.name, kinds[tensor.dtype])
            assert tuple(size.dim_value for size in kind.shape.dim) == tensor.shape
    versions = {one.domain: one.version for one in model.opset_import}
    assert versions == {"": 21, "com.microsoft": 1}


def test_elements_that_onnx_does_not_have_are_refused() -> None:
    with pytest.raises(ElementError, match="`logits` has elements of type 0x245"):
        wrap(changed(graph(1, 64), "logits", dtype="0x245"), "a.bin")


def by_name(graphs: tuple[GraphFacts, ...]) -> dict[str, dict[str, object]]:
    return {
        graph.name: {
            f"{side}/{one.name}": (
                one.shape,
                one.dtype,
                None if one.scale is None else pytest.approx(one.scale),
                one.offset,
            )
            for side, tensors in (("in", graph.inputs), ("out", graph.outputs))
            for one in tensors
        }
        for graph in graphs
    }


def test_metadata_says_of_graphs_what_the_binaries_say(qairt_bundles: QairtBundles) -> None:
    folder = qairt_bundles.folder(parts=2)
    shards = shards_of(read_bundle(folder), installed_libraries()[0])
    assert [path.name for path, _ in shards] == [path.name for path in sorted(folder.glob("*.bin"))]
    for part, (_, graphs) in enumerate(shards, 1):
        assert len(graphs) == 2
        assert by_name(described(folder, part, 2)) == by_name(tuple(graphs))


def test_no_metadata_describes_nothing(tmp_path: Path) -> None:
    assert described(tmp_path, 1, 1) == ()
