"""Greedy decoding with the decoder's graphs on the CPU: what every engine has to agree with."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from ci.qairt_bundles.decoder import GraphSpec
from ci.qairt_bundles.quantise import MASKED, Encoding, Ranges, encoding_of
from ci.qairt_bundles.shape import SHAPE

Values = dict[str, NDArray[Any]]


class Graphs:
    """Loaded graphs; those of one width run one after the other, part by part."""

    def __init__(self, models: Mapping[GraphSpec, onnx.ModelProto]) -> None:
        self.context = next(iter(models)).context
        self.widths = sorted({spec.width for spec in models})
        self._sessions = {spec: _session(model) for spec, model in models.items()}

    def run(self, width: int, values: Values) -> Values:
        """All outputs of one step; what one part gives is there for the next."""
        pool = dict(values)
        for spec in sorted(self._sessions, key=lambda spec: spec.part):
            if spec.width != width:
                continue
            session = self._sessions[spec]
            fed = {one.name: pool[one.name] for one in session.get_inputs()}
            names = [one.name for one in session.get_outputs()]
            pool |= zip(names, session.run(names, fed), strict=True)
        return pool


class Decoding:
    """One sequence: caches whose first `past` places are filled."""

    def __init__(self, graphs: Graphs, ranges: Ranges | None) -> None:
        self._graphs = graphs
        self._ranges = ranges
        self._encodings: dict[str, Encoding] = {}
        self.past = 0
        shape, length = (SHAPE.kv_heads, 1), graphs.context
        zero = 0.0 if ranges is None else 128
        kind = np.float32 if ranges is None else np.uint8
        size = SHAPE.head_width
        self._keys = [np.full((*shape, size, length), zero, kind) for _ in range(SHAPE.layers)]
        self._values = [np.full((*shape, length, size), zero, kind) for _ in range(SHAPE.layers)]
        self.last: Values = {}

    def step(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Take tokens, as many as the widest graph at most; the logits after the last one."""
        width = min(one for one in self._graphs.widths if one >= len(ids))
        count, room = len(ids), self._graphs.context - width
        self.last = values = self._inputs(ids, width, room)
        given = self._graphs.run(width, values)
        place = slice(self.past, self.past + count)
        for layer in range(SHAPE.layers):
            self._keys[layer][..., place] = given[f"past_key_{layer}_out"][..., :count]
            self._values[layer][:, :, place] = given[f"past_value_{layer}_out"][:, :, :count]
        self.past += count
        self.last = given
        row = given["logits"][0, count - 1]
        return row if self._ranges is None else self._encoding("logits").decode(row)

    def greedy(self, ids: Sequence[int], count: int, ends: Sequence[int] = ()) -> list[int]:
        """Up to `count` tokens after a prompt, the ending one included."""
        logits = self.read(ids)
        found: list[int] = []
        while len(found) < count:
            found.append(int(logits.argmax()))
            if found[-1] in ends or self.past >= self._graphs.context:
                break
            logits = self.step(found[-1:])
        return found

    def margin(self, ids: Sequence[int], answer: Sequence[int]) -> float:
        """How far the chosen tokens were ahead of the second ones, at the least."""
        logits, least = self.read(ids), np.inf
        for token in answer:
            others = np.delete(logits, token)
            least = min(least, float(logits[token] - others.max()))
            logits = self.step([token])
        return least

    def read(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Take a prompt in pieces; the logits after its last token."""
        widest = self._graphs.widths[-1]
        for start in range(0, len(ids), widest):
            logits = self.step(ids[start : start + widest])
        return logits

    def _inputs(self, ids: Sequence[int], width: int, room: int) -> Values:
        half = np.arange(0, SHAPE.head_width, 2) / SHAPE.head_width
        angle = np.arange(self.past, self.past + width)[:, None] / SHAPE.rope_theta**half
        mask = np.full((1, 1, width, self._graphs.context), MASKED, np.float32)
        mask[..., : len(ids), : self.past] = 0
        for row in range(len(ids)):
            mask[..., row, room : room + row + 1] = 0
        values: Values = {
            "attention_mask": mask,
            "position_ids_cos": np.cos(angle).astype(np.float32)[None, None],
            "position_ids_sin": np.sin(angle).astype(np.float32)[None, None],
        }
        if self._ranges is not None:
            values = {name: self._encoding(name).encode(one) for name, one in values.items()}
        values["input_ids"] = np.array([[*ids, *[0] * (width - len(ids))]], np.int32)
        for layer in range(SHAPE.layers):
            keys, kept = self._keys[layer], self._values[layer]
            values[f"past_key_{layer}_in"] = np.ascontiguousarray(keys[..., :room])
            values[f"past_value_{layer}_in"] = np.ascontiguousarray(kept[:, :, :room])
        return values

    def _encoding(self, name: str) -> Encoding:
        if name not in self._encodings:
            assert self._ranges is not None
            self._encodings[name] = encoding_of(name, self._ranges)
        return self._encodings[name]


def _session(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
