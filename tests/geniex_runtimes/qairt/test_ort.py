"""The engine ort with the CPU in the place of the NPU: forms of graphs that no test bundle has."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci.qairt_bundles.corpus import PROMPTS
from ci.qairt_bundles.decoder import GraphSpec, build
from ci.qairt_bundles.making import read_ranges
from ci.qairt_bundles.quantise import Ranges, encoding_of
from ci.qairt_bundles.reference import Decoding, Graphs
from ci.qairt_bundles.weights import load
from geniex_runtimes.qairt import ort
from geniex_runtimes.qairt.engine import EngineError, EngineOptions
from geniex_runtimes.qairt.inspection import GraphFacts, TensorFacts
from tests.qairt_bundles import QairtBundles

Models = Mapping[GraphSpec, Any]
Make = Callable[..., tuple[ort.OrtEngine, Models]]
TYPES = {"tensor(int32)": "int32", "tensor(uint8)": "uint8", "tensor(uint16)": "uint16"}


class CpuSessions:
    """Graphs of ONNX models in onnxruntime's CPU provider."""

    def __init__(self, models: Models) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.sessions = {
            spec.name: onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            for spec, model in models.items()
        }
        self.runs: list[str] = []

    def facts(self, spec: GraphSpec, ranges: Ranges | None) -> GraphFacts:
        def tensor(one: Any) -> TensorFacts:
            dtype = TYPES.get(one.type, "float32")
            if ranges is None or dtype == "int32":
                return TensorFacts(one.name, tuple(one.shape), dtype, None, None)
            encoding = encoding_of(one.name, ranges)
            scale = float(encoding.scale)
            return TensorFacts(one.name, tuple(one.shape), dtype, scale, -encoding.zero)

        session = self.sessions[spec.name]
        inputs, outputs = session.get_inputs(), session.get_outputs()
        return GraphFacts(spec.name, tuple(map(tensor, inputs)), tuple(map(tensor, outputs)))

    def run(self, graph: GraphFacts, values: Mapping[str, Any]) -> dict[str, Any]:
        self.runs.append(graph.name)
        names = [one.name for one in graph.outputs]
        fed = {one.name: values[one.name] for one in graph.inputs}
        return dict(zip(names, self.sessions[graph.name].run(names, fed), strict=True))

    def close(self) -> None:
        self.sessions.clear()


@pytest.fixture
def make(qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes an engine of graphs of these sizes; its files are those of some bundle."""

    def made(
        sizes: Sequence[tuple[int, int]], parts: int = 1, *, floats: bool = False, **options: Any
    ) -> tuple[ort.OrtEngine, Models]:
        ranges = None if floats else read_ranges()
        weights = load()
        numbers = range(1, parts + 1)
        specs = [[GraphSpec(*size, part, parts) for size in sizes] for part in numbers]
        models = {spec: build(spec, weights, ranges) for part in specs for spec in part}
        sessions = CpuSessions(models)
        shards = [(Path(), [sessions.facts(spec, ranges) for spec in part]) for part in specs]
        monkeypatch.setattr(ort, "shards_of", lambda bundle, libraries: shards)
        monkeypatch.setattr(ort, "QnnSessions", lambda given: sessions)
        engine = ort.OrtEngine(qairt_bundles.folder(), EngineOptions(Path(), **options))
        return engine, models

    return made


def greedy(engine: ort.OrtEngine, ids: Sequence[int], count: int) -> list[int]:
    tokens: list[int] = []

    def choose(logits: Any) -> int | None:
        tokens.append(int(logits.argmax()))
        return None if len(tokens) == count else tokens[-1]

    engine.evaluate(ids, choose)
    return tokens


def steps(engine: ort.OrtEngine) -> list[str]:
    """The graphs that have run since this was asked last."""
    runs: list[str] = engine._sessions.runs  # type: ignore[attr-defined]
    found = runs.copy()
    runs.clear()
    return found


@pytest.mark.parametrize("parts", [1, 2])
def test_graphs_of_floats(qairt_bundles: QairtBundles, make: Make, parts: int) -> None:
    """Four-bit bundles have caches and hidden states of floats."""
    engine, models = make([(16, 64), (1, 64)], parts, floats=True)
    graphs = Graphs(models)
    for text in PROMPTS[:4]:
        ids = qairt_bundles.encode(text)
        assert greedy(engine, ids, 20) == Decoding(graphs, None).greedy(ids, 20)


def test_each_step_is_taken_by_the_graphs_that_suit_it(
    qairt_bundles: QairtBundles, make: Make
) -> None:
    engine, _ = make([(16, 64), (1, 64), (16, 128), (1, 128)])
    ids = qairt_bundles.encode("Count: one two three")
    whole = [*ids, *qairt_bundles.reference(ids, 80, context=512)]
    assert greedy(engine, whole[:50], 16) == whole[50:66]
    assert steps(engine) == [
        *["prompt_ar16_cl64_1_of_1"] * 3,  # 48 tokens
        "prompt_ar16_cl64_1_of_1",  # 2 more
        *["token_ar1_cl64_1_of_1"] * 14,  # up to 64
        "token_ar1_cl128_1_of_1",
    ]
    # 49 are kept, and 11 to read: there is no room for 16 behind them within 64
    assert greedy(engine, [*whole[:49], *whole[50:61]], 1)
    assert steps(engine) == ["prompt_ar16_cl128_1_of_1"]


def test_without_a_graph_for_single_tokens_the_context_ends_early(
    qairt_bundles: QairtBundles, make: Make
) -> None:
    engine, _ = make([(16, 64)])
    ids = qairt_bundles.encode("Count: one two three")
    expected = qairt_bundles.reference(ids, 20)
    assert greedy(engine, ids, 20) == expected
    with pytest.raises(EngineError, match="64 tokens is full"):
        greedy(engine, ids, 60)
    assert greedy(engine, ids, 20) == expected


def test_an_abort_is_honoured_between_the_steps_of_a_prompt(
    qairt_bundles: QairtBundles, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = make([(16, 64), (1, 64)])
    ids = qairt_bundles.encode(PROMPTS[-1]) * 3
    run = engine._sessions.run

    def aborting(*args: Any) -> Any:
        engine.abort()
        return run(*args)

    with monkeypatch.context() as patched:
        patched.setattr(engine._sessions, "run", aborting)
        assert greedy(engine, ids, 5) == []
    assert len(steps(engine)) == 1
    engine.abort()  # nothing runs
    assert len(greedy(engine, ids, 2)) == 2


def test_a_failed_step_leaves_what_was_there(
    qairt_bundles: QairtBundles, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = make([(16, 64), (1, 64)])
    ids = qairt_bundles.encode(PROMPTS[0])
    expected = greedy(engine, ids, 5)

    def failing(*args: Any) -> Any:
        raise EngineError("the graph failed")

    with monkeypatch.context() as patched:
        patched.setattr(engine._sessions, "run", failing)
        with pytest.raises(EngineError, match="the graph failed"):
            greedy(engine, [*ids, *expected], 5)
    assert greedy(engine, ids, 5) == expected
    with pytest.raises(EngineError, match="empty"):
        greedy(engine, [], 5)


def test_a_saved_sequence_that_is_damaged_is_refused(
    qairt_bundles: QairtBundles, make: Make, tmp_path: Path
) -> None:
    engine, _ = make([(16, 64), (1, 64)])
    ids = qairt_bundles.encode(PROMPTS[0])
    expected = greedy(engine, ids, 5)
    folder = tmp_path / "saved"
    folder.mkdir()
    engine.save(folder)
    (saved,) = folder.iterdir()
    data = saved.read_bytes()
    with np.load(saved) as file:
        arrays = dict(file)
    saved.write_bytes(data[: len(data) // 2])
    with pytest.raises(EngineError, match="cannot be read"):
        engine.restore(folder)
    np.savez(saved, **arrays | {"tokens": arrays["tokens"][:-1]})
    with pytest.raises(EngineError, match="does not fit"):
        engine.restore(folder)
    assert greedy(engine, ids, 5) == expected
