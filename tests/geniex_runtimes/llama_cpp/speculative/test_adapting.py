"""The controller in a running engine: real drafts and real acceptance, the seconds are made up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.llama_cpp.speculative import setup
from geniex_runtimes.llama_cpp.speculative.controller import Controller
from geniex_runtimes.llama_cpp.speculative.costs import Costs
from geniex_runtimes.llama_cpp.speculative.model_drafter import ModelDrafter
from geniex_runtimes.options import SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer
from tests.geniex_runtimes.llama_cpp.speculative.test_mtp import PAIRS, PLAIN, load_pair, prompts
from tests.toys import maker

ADAPTIVE = SpeculativeOptions(("draft-mtp",), 3)
FIXED = SpeculativeOptions(("draft-mtp",), 3, adapt=False)
# seconds of 1, 2, 3, 4 rows, and of 1, 2, 3 draft tokens
LIKE_A_GPU = ((10e-3, 10.3e-3, 10.6e-3, 10.9e-3), (1e-3, 2e-3, 3e-3))
QUICK_AND_DEAR = ((0.20e-3, 0.32e-3, 0.44e-3, 0.56e-3), (0.05e-3, 0.1e-3, 0.15e-3))

Machine: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass
class Log:
    """Number, asked, accepted and the state of each step that the controller was told of.

    Those between are plain. `pauses` is how often the drafter paused.
    """

    steps: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    pauses: int = 0
    machine: Machine = LIKE_A_GPU


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """What the controllers of the engines made from now on do."""
    told = Log()
    record, pause = Controller.record, ModelDrafter.pause

    def recorded(
        self: Controller, slot: int, proposed: int, accepted: int, *_: float, **__: bool
    ) -> None:
        asked = self._slots[slot].asked
        rows, drafts = told.machine
        record(self, slot, proposed, accepted, rows[proposed], drafts[asked - 1] if asked else 0)
        told.asked.append(asked)
        told.accepted.append(accepted)
        told.steps.append(self._slots[slot].steps)
        told.states.append(self.state(slot)[0])

    def paused(self: ModelDrafter) -> None:
        told.pauses += 1
        pause(self)

    monkeypatch.setattr(Controller, "record", recorded)
    monkeypatch.setattr(ModelDrafter, "pause", paused)
    return told


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, toys: Path, log: Log) -> Callable[..., LlamaCppModel]:
    def load(target: str, draft: str | None, machine: Machine) -> LlamaCppModel:
        log.machine = machine
        monkeypatch.setattr(setup, "measure", lambda *_: Costs(*machine))
        return load_pair(toys / target, toys / draft if draft else None, 3)

    return load


def flip_prompt(start: int) -> list[int]:
    return [2, maker.FLIP.table().cycle[start]]


@pytest.mark.parametrize(
    ("start", "becomes"), [(538, "bad"), (1176, "good")], ids=["becomes bad", "becomes good"]
)
def test_an_answer_that_flips_is_followed_within_32_steps(
    load: Callable[..., LlamaCppModel], log: Log, start: int, becomes: str
) -> None:
    target, draft = "g4-flip-target.gguf", "g4-flip-draft.gguf"
    fields = {"max_tokens": 300, "reuse_prefix": False}
    with load(target, draft, LIKE_A_GPU) as model:
        plain = answer(model, flip_prompt(start), speculative=PLAIN, **fields)
        drafted = answer(model, flip_prompt(start), speculative=ADAPTIVE, **fields)
    assert drafted.text == plain.text
    tokens, flipped = 1, 0
    for step, taken in zip(log.steps, log.accepted, strict=True):
        tokens += taken
        if step + tokens >= 100:
            flipped = step
            break
    told = list(zip(log.steps, log.states, log.asked, strict=True))
    before = [state for step, state, _ in told if step < flipped - 2][-1]
    after = [(state, asked) for step, state, asked in told if step > flipped + 32]
    if becomes == "bad":
        assert before == "on" and after
        assert all(state != "on" and asked <= 1 for state, asked in after)
    else:
        assert before != "on" and len(after) > 10
        assert all(state == "on" for state, _ in after[:10])


@pytest.mark.parametrize("kind", ["shared", "own", "chained"])
def test_a_resting_drafter_pauses_and_is_right_again_afterwards(
    load: Callable[..., LlamaCppModel], log: Log, kind: str
) -> None:
    target, draft, _ = PAIRS[kind]
    fields = {"max_tokens": 900, "reuse_prefix": False}
    with load(target, draft, QUICK_AND_DEAR) as model:
        for prompt in prompts(3):
            plain = answer(model, prompt, speculative=PLAIN, **fields)
            drafted = answer(model, prompt, speculative=ADAPTIVE, **fields)
            assert drafted.text == plain.text
    later = [taken for asked, taken in zip(log.asked, log.accepted, strict=True) if asked][4:]
    assert log.pauses >= 3 and len(later) >= 6
    # a head that knows only the last few tokens is right less often, and still often
    assert sum(later) >= 0.2 * len(later)


def test_a_new_answer_beside_a_resting_one_is_followed_from_its_beginning(
    load: Callable[..., LlamaCppModel], log: Log
) -> None:
    for kind in ("own", "chained"):
        target, draft, _ = PAIRS[kind]
        with load(target, draft, QUICK_AND_DEAR) as model:
            prompt = prompts(1)[0]
            fields = {"max_tokens": 100, "reuse_prefix": False}
            alone = answer(model, prompt, speculative=FIXED, **fields)
            answer(model, prompts(2)[1], speculative=ADAPTIVE, max_tokens=300)
            again = answer(model, prompt, speculative=FIXED, **fields)
        assert again.done.profile.accepted_at == alone.done.profile.accepted_at


@pytest.mark.parametrize("kind", ["shared", "own", "chained"])
def test_a_draft_that_cannot_be_evaluated_is_no_draft(
    toys: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft, _ = PAIRS[kind]
    decode, calls = Context.decode, 0

    def failing(self: Context, batch: Batch) -> None:
        nonlocal calls
        if self is drafting:
            calls += 1
            if 30 <= calls <= 40:
                raise GenerationError("no room")
        decode(self, batch)

    fields = {"max_tokens": 150, "reuse_prefix": False}
    with load_pair(toys / target, toys / draft if draft else None, 3) as model:
        speculator = model._speculation.speculator
        assert speculator is not None
        drafting = speculator._context
        plain = answer(model, prompts(1)[0], speculative=PLAIN, **fields)
        monkeypatch.setattr(Context, "decode", failing)
        drafted = answer(model, prompts(1)[0], speculative=FIXED, **fields)
    assert calls > 60
    assert drafted.text == plain.text
    accepted = drafted.done.profile.draft_accepted
    assert accepted > 0.2 * drafted.done.profile.draft_proposed
