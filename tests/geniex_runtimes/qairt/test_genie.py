"""What the engine genie asks of libGenie, and what it makes of the answers; without libGenie."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geniex_runtimes.qairt import genie
from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.engine import EngineError, EngineOptions, Floats
from geniex_runtimes.qairt.genie import GenieEngine
from geniex_runtimes.qairt.genie_library import CONTEXT_EXCEEDED, OK
from tests.qairt_bundles import QairtBundles

LOGITS: Floats = np.zeros(512, np.float32)
EOS = 1


class Library:
    """Stands for libGenie: `queries` are what was asked of all dialogs, `fails` what comes next."""

    def __init__(self, _libraries: Path) -> None:
        self.sample: Callable[[Floats], int] = lambda _: EOS
        self.queries: list[tuple[list[int], bool]] = []
        self.dialogs = 0
        self.fails: list[int | None] = []


class Dialog:
    """Evaluates nothing; asks for tokens until one is EOS."""

    def __init__(self, library: Library, config: Mapping[str, Any]) -> None:
        self._library = library
        self.config = config
        library.dialogs += 1

    def query(self, tokens: Sequence[int], *, rewind: bool) -> int:
        self._library.queries.append((list(tokens), rewind))
        status = self._library.fails.pop(0) if self._library.fails else OK
        if status is None:
            raise EngineError("status -1")
        while status == OK and self._library.sample(LOGITS) != EOS:
            pass
        return status

    def reset(self) -> None:
        """Nothing is held."""

    free = reset


@pytest.fixture
def engine(qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch) -> GenieEngine:
    """A context of 64 tokens, and a prompt graph of 16."""
    monkeypatch.setattr(genie, "GenieLibrary", Library)
    monkeypatch.setattr(genie, "Dialog", Dialog)
    return GenieEngine(qairt_bundles.folder(), EngineOptions(Path()))


def _library(engine: GenieEngine) -> Library:
    library = engine._library
    assert isinstance(library, Library)
    return library


def _answer(engine: GenieEngine, prompt: Sequence[int], *tokens: int) -> int:
    """How many tokens of a prompt were kept; the answer is `tokens`."""
    rest = iter(tokens)
    return engine.evaluate(prompt, lambda _: next(rest, None))


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        pytest.param([0, 5, 6, 7, 8, 9], 5, id="goes-on"),
        pytest.param([0, 5, 6, 9], 3, id="gives-up-two"),
        pytest.param([0, 5, 6, 7, 8], 0, id="nothing-new"),
        pytest.param([0, 5, 6], 0, id="only-less"),
        pytest.param([0, 9, 9], 0, id="gives-up-four"),
        pytest.param([3, 4], 0, id="another"),
    ],
)
def test_what_a_second_prompt_keeps(engine: GenieEngine, prompt: list[int], kept: int) -> None:
    assert _answer(engine, [0, 5, 6], 7, 8) == 0
    assert _answer(engine, prompt) == kept
    assert _library(engine).queries == [([0, 5, 6], False), (prompt, kept > 0)]


def test_what_is_beyond_the_room_of_the_prompt_graph_goes_in_as_if_sampled(
    engine: GenieEngine,
) -> None:
    prompt = list(range(2, 62))
    seen: list[int] = []
    engine.evaluate(prompt, lambda logits: seen.append(len(logits)))
    assert _library(engine).queries == [(prompt[:48], False)]
    assert seen == [512]
    # a cache that has grown beyond it is not wound back
    assert _answer(engine, [*prompt, 70]) == 0


def test_a_rewind_that_finds_no_place_is_done_afresh(engine: GenieEngine) -> None:
    _answer(engine, [0, 5, 6])
    _library(engine).fails = [CONTEXT_EXCEEDED]
    assert _answer(engine, [0, 5, 6, 7], 8) == 0
    assert _library(engine).queries[1:] == [([0, 5, 6, 7], True), ([0, 5, 6, 7], False)]
    assert _library(engine).dialogs == 2
    assert _answer(engine, [0, 5, 6, 7, 8, 9]) == 5


@pytest.mark.parametrize("status", [CONTEXT_EXCEEDED, None, 3])
def test_a_dialog_that_failed_is_made_anew(engine: GenieEngine, status: int | None) -> None:
    _library(engine).fails = [status]
    with pytest.raises(EngineError):
        _answer(engine, [0, 5])
    assert _answer(engine, [0, 5, 6]) == 0
    assert _library(engine).dialogs == (1 if status == 3 else 2)


def test_an_error_of_the_caller_ends_the_query_and_goes_on(engine: GenieEngine) -> None:
    with pytest.raises(StopIteration):
        engine.evaluate([0, 5], lambda _: next(iter(())))
    assert _answer(engine, [0, 5, 6]) == 2


def test_the_configuration_of_a_dialog(qairt_bundles: QairtBundles) -> None:
    bundle = read_bundle(qairt_bundles.folder())
    dialog = genie.dialog_config(bundle)["dialog"]
    assert dialog["sampler"]["type"] == "custom"
    assert dialog["context"]["bos-token"] == -1
    assert dialog["context"]["eos-token"] == EOS
    for path in (dialog["tokenizer"]["path"], *dialog["engine"]["model"]["binary"]["ctx-bins"]):
        assert Path(path).is_absolute() and Path(path).is_file()
    assert bundle.config["dialog"]["context"]["bos-token"] == 0
    assert genie.prompt_room(bundle) == 48
