"""Prompts beside running answers: neither starves. Decodes are counted, on a made-up clock."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from geniex_runtimes.contract import Generation, GenerationRequest
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.company import FINE_ROWS
from geniex_runtimes.llama_cpp.context import CPU_ROWS, Context
from geniex_runtimes.llama_cpp.pace import Pace
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.options import SamplingOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load

LONG = [(37 * place) % 400 + 50 for place in range(900)]
SHORT = LONG[100:133]
SLOTS = 4
STEP = 0.010  # seconds of a decode of answers


@dataclass
class Machine:
    """A clock that only decodes move, and the rows of those decodes that were a prompt's.

    A row of a prompt takes `row` seconds. `then` is called when there have been so many chunks.
    """

    row: float = 0.001
    now: float = 0.0
    chunks: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    then: dict[int, Callable[[], object]] = field(default_factory=dict)

    def decode(self, rows: int) -> None:
        if rows <= SLOTS:
            self.now += STEP
            return
        self.now += self.row * rows
        self.chunks.append(rows)
        self.times.append(self.now)
        self.then.pop(len(self.chunks), int)()

    def share(self, first: int, last: int) -> float:
        """The prompts' share of the time from the end of one chunk to that of another."""
        rows = sum(self.chunks[first + 1 : last + 1])
        return rows * self.row / (self.times[last] - self.times[first])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    one = Machine()
    decode, made = Context.decode, Pace.__init__

    def counted(self: Context, batch: Batch) -> None:
        one.decode(batch.rows)
        decode(self, batch)

    def with_clock(self: Pace, *, on_cpu: bool, cut: int) -> None:
        made(self, on_cpu=on_cpu, cut=cut, clock=lambda: one.now)

    monkeypatch.setattr(Context, "decode", counted)
    monkeypatch.setattr(Pace, "__init__", with_clock)
    return one


@pytest.fixture
def model(machine: Machine, tiny_chat: Path) -> Iterator[LlamaCppModel]:
    with load(tiny_chat, slots=SLOTS) as loaded:
        machine.chunks.clear()
        machine.times.clear()
        yield loaded


def started(model: LlamaCppModel, prompt: list[int], max_tokens: int | None = None) -> Generation:
    """An answer that does not end by itself."""
    is_end = model._weights.vocab.is_end
    held_back = tuple((token, -1e9) for token in range(model.info.vocab_size) if is_end(token))
    sampling = SamplingOptions(temperature=0, logit_bias=held_back)
    request = GenerationRequest(prompt, sampling, max_tokens, reuse_prefix=False)
    return model.generate(request)


def drain(generations: Iterable[Generation]) -> None:
    """Read them to their ends."""
    for generation in generations:
        for _ in generation:
            pass


@contextmanager
def an_answer(model: LlamaCppModel) -> Iterator[None]:
    """It runs meanwhile."""
    generation = started(model, [3])
    next(generation)
    try:
        yield
    finally:
        generation.stop()
        drain([generation])


@pytest.mark.parametrize(
    ("row", "rows"),
    [
        pytest.param(0.0005, CPU_ROWS, id="a chunk takes three steps"),
        pytest.param(0.001, CPU_ROWS, id="a chunk takes six steps"),
        pytest.param(0.004, FINE_ROWS, id="it would take a quarter of a second"),
    ],
)
def test_answers_keep_their_share_and_the_prompt_has_its_own(
    machine: Machine, model: LlamaCppModel, row: float, rows: int
) -> None:
    machine.row = row
    with an_answer(model):
        beside = answer(model, LONG, max_tokens=20)
    last = len(machine.chunks) - 2
    assert set(machine.chunks[2:last]) == {rows}
    # what was saved up is spent by then
    assert 0.30 < machine.share(4, last) < 0.38
    alone = answer(model, LONG, max_tokens=20, reuse_prefix=False)
    assert beside.text == alone.text
    assert max(machine.chunks) == 8 * CPU_ROWS, "alone it goes at once"


def test_a_short_prompt_is_not_held_up_by_a_long_one(
    machine: Machine, model: LlamaCppModel
) -> None:
    short: list[Generation] = []
    machine.then[5] = lambda: short.append(started(model, SHORT, max_tokens=1))
    with an_answer(model):
        answer(model, LONG, max_tokens=1)
    assert len(SHORT) in machine.chunks[5:7]


def test_a_long_prompt_goes_on_beside_many_short_ones(
    machine: Machine, model: LlamaCppModel
) -> None:
    def another() -> None:
        short.append(started(model, SHORT, max_tokens=1))
        machine.then[len(machine.chunks) + 1] = another

    short: list[Generation] = []
    machine.then[3] = another
    with an_answer(model):
        answer(model, LONG, max_tokens=1)
        machine.then.clear()
    assert machine.chunks.count(CPU_ROWS) >= len(machine.chunks) // 2 - 1


def test_short_prompts_go_in_together(machine: Machine, model: LlamaCppModel) -> None:
    more: list[Generation] = []
    machine.then[1] = lambda: more.extend(started(model, SHORT, max_tokens=1) for _ in range(2))
    with an_answer(model):
        answer(model, SHORT, max_tokens=1)
        drain(more)
    assert machine.chunks == [len(SHORT)] * 3
    # two chunks, and the one step that comes before them
    assert machine.times[2] - machine.times[0] < 2 * len(SHORT) * machine.row + 1.5 * STEP


def test_short_prompts_go_in_at_once_as_far_as_may_be_owed(
    machine: Machine, model: LlamaCppModel
) -> None:
    machine.row = 0.008  # a quarter of a second each: more than is saved up
    more: list[Generation] = []
    machine.then[1] = lambda: more.extend(started(model, SHORT, max_tokens=1) for _ in range(2))
    with an_answer(model):
        answer(model, SHORT, max_tokens=1)
        drain(more)
        owed = machine.now
        answer(model, SHORT, max_tokens=1, reuse_prefix=False)
    whole = len(SHORT) * machine.row
    assert sum(machine.chunks) == 4 * len(SHORT)
    first, last = machine.times[0], max(time for time in machine.times if time <= owed)
    assert last - first < 2 * whole + 1.5 * STEP
    # three are more than is to be owed: the next waits until that is less
    assert machine.times[-1] - owed > whole + 10 * STEP


def test_nothing_is_owed_for_short_prompts_where_a_long_one_waits(
    machine: Machine, model: LlamaCppModel
) -> None:
    machine.row = 0.003
    more: list[Generation] = []
    machine.then[4] = lambda: more.extend(started(model, SHORT, max_tokens=1) for _ in range(2))
    with an_answer(model):
        answer(model, LONG, max_tokens=1)
    last = len(machine.chunks) - 2
    assert 0.30 < machine.share(4, last) < 0.38
