"""`python -m ci.qairt_bundles.calibrate`: find the range of every value, for their encodings."""

import argparse
import json
import random
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from ci.qairt_bundles.corpus import BOS, PROMPTS, document
from ci.qairt_bundles.decoder import GraphSpec, build
from ci.qairt_bundles.reference import Decoding, Graphs
from ci.qairt_bundles.weights import DATA, TOKENIZER, load

RANGES = "ranges.json"
_WIDTH, _CONTEXT = 64, 512
_DOCUMENTS = 60


def all_values(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with every value of it as an output."""
    shown = {one.name for one in model.graph.output}
    for node in model.graph.node:
        if node.output[0] not in shown:
            info = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
            model.graph.output.append(info)
    return model


def measure(folder: Path) -> dict[str, tuple[float, float]]:
    """The smallest and largest of every value, over documents like those of the training."""
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    spec = GraphSpec(_WIDTH, _CONTEXT)
    graphs = Graphs({spec: all_values(build(spec, load(folder), None))})
    found: dict[str, tuple[float, float]] = {}
    chance = random.Random(9)
    texts = [document(chance) for _ in range(_DOCUMENTS)] + list(PROMPTS)
    for text in texts:
        ids = tokenizer.encode(BOS + text).ids[: _CONTEXT - _WIDTH]
        decoding = Decoding(graphs, None)
        for start in range(0, len(ids), _WIDTH):
            piece = ids[start : start + _WIDTH]
            decoding.step(piece)
            for name, values in decoding.last.items():
                if values.dtype != np.float32:
                    continue
                low, high = found.get(name, (0.0, 0.0))
                found[name] = (min(low, float(values.min())), max(high, float(values.max())))
    return found


def main() -> None:
    """Measure, and write the ranges beside the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    found = {
        name: [float(f"{edge:.7g}") for edge in edges] for name, edges in measure(args.data).items()
    }
    (args.data / RANGES).write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    print(f"{len(found)} ranges in {args.data}")


if __name__ == "__main__":
    main()
