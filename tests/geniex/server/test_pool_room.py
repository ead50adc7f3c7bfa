"""How much memory there is for models: measured on the machine, on its cards, or set."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from geniex.server import footprint
from geniex.server.footprint import MACHINE, Budget
from geniex.server.pool import ModelWish, Pool
from geniex_catalogue.errors import ServerBusyError
from geniex_runtimes import hardware
from geniex_runtimes.contract import Device, HardwareProfile
from geniex_runtimes.fake import FakeRuntime
from tests.geniex.conftest import MACHINE as PLAIN
from tests.geniex.server.pools import Loads, Models, names, pool_of

Install = Callable[[FakeRuntime], FakeRuntime]
GIB = 1 << 30
RESERVE = GIB  # a sixteenth of 16 GiB


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What this process takes beside mapped files, in the place of a measurement."""
    taken = [GIB // 4]
    monkeypatch.setattr(footprint, "_own_bytes", lambda: taken[0])
    return taken


@pytest.mark.parametrize(
    ("free", "own_now", "held", "expected"),
    [
        pytest.param(8, 0, 0, 8, id="nothing-loaded"),
        pytest.param(8, 0, 3, 8, id="mapped-weights-count-as-free"),
        pytest.param(5, 0, 3, 8, id="mapped-weights-count-as-used"),
        pytest.param(5, 3, 3, 8, id="copied-weights"),
        pytest.param(2, 0, 0, 2, id="others-have-taken-some"),
        pytest.param(2, 3, 3, 5, id="others-have-taken-some-beside-ours"),
        pytest.param(12, 0, 0, 12, id="others-have-left"),
        pytest.param(9, 3, 3, 12, id="others-have-left-beside-ours"),
        pytest.param(0, 0, 0, 1, id="nothing-is-left"),
    ],
)
def test_the_machine_is_measured_each_time(
    own: list[int], free: int, own_now: int, held: int, expected: int
) -> None:
    budget = Budget()
    assert budget.bytes(MACHINE, replace(PLAIN, memory_free=8 * GIB), 0) == 8 * GIB - RESERVE
    own[0] += own_now * GIB
    machine = replace(PLAIN, memory_free=free * GIB)
    assert budget.bytes(MACHINE, machine, held * GIB) == expected * GIB - RESERVE


def test_a_limit_is_the_limit_and_the_unknown_is_none(own: list[int]) -> None:
    assert Budget(5).bytes(MACHINE, PLAIN, 3) == Budget(5).bytes("CUDA0", PLAIN, 3) == 5
    assert Budget().bytes(MACHINE, replace(PLAIN, memory_total=0, memory_free=0), 3) is None
    silent = Device("CUDA0", "a card", "gpu", "llama_cpp")
    assert Budget().bytes("CUDA0", replace(PLAIN, devices=(silent,)), 3) is None


def test_this_process_takes_something() -> None:
    assert 10e6 < footprint._own_bytes() < 100e9


@pytest.fixture
def models(tmp_path: Path, tiny_chat: Path) -> Models:
    folder = tmp_path / "models"
    folder.mkdir()
    return Models(folder, tiny_chat)


class Card:
    """A machine with one graphics card, whose driver counts what the pool has put there."""

    def __init__(self) -> None:
        self.total = GIB
        self.pool: Pool | None = None

    def __call__(self, data_dir: Path) -> HardwareProfile:
        held = self.pool.residents() if self.pool is not None else []
        used = sum(one.bytes for one in held if one.compute == "gpu")
        card = Device("CUDA0", "a card", "gpu", "llama_cpp", self.total, self.total - used)
        return replace(PLAIN, devices=(*PLAIN.devices, card))


@pytest.fixture
def card(scripted: Install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    scripted(FakeRuntime(name="llama_cpp"))
    made = Card()
    monkeypatch.setattr(hardware, "probe", made)
    yield made


def test_a_card_has_memory_of_its_own(
    tmp_path: Path, card: Card, models: Models, own: list[int]
) -> None:
    loads = Loads()
    with pool_of(tmp_path, loads) as pool:
        card.pool = pool
        pool.acquire(models.wish("a")).close()
        (one,) = pool.residents()
        assert (one.compute, one.devices) == ("gpu", ("CUDA0",))
        card.total = one.bytes * 9 // 4
        pool.acquire(models.wish("b")).close()
        pool.acquire(ModelWish(str(models["c"]), nctx=512, compute="cpu")).close()
        assert names(pool.residents()) == ["a", "b", "c"], "each has its place"
        pool.acquire(models.wish("d")).close()
        assert names(pool.residents()) == ["b", "c", "d"]
        assert [one.compute for one in pool.residents()] == ["gpu", "cpu", "gpu"]


def test_a_card_that_is_taken(tmp_path: Path, card: Card, models: Models, own: list[int]) -> None:
    with pool_of(tmp_path, Loads()) as pool:
        card.pool = pool
        held = pool.acquire(models.wish("a"))
        card.total = pool.residents()[0].bytes * 3 // 2
        with pytest.raises(ServerBusyError):
            pool.acquire(ModelWish(str(models["b"]), nctx=512, compute="gpu"))
        with pool.acquire(models.wish("b")) as other:
            assert other.model.plan.compute == "cpu", "left to us it takes what is free"
        held.close()


def test_layers_that_stay_off_the_card_do_not_count(
    tmp_path: Path, card: Card, models: Models, own: list[int]
) -> None:
    with pool_of(tmp_path, Loads()) as pool:
        pool.acquire(ModelWish(str(models["a"]), nctx=512, ngl=1)).close()
        pool.acquire(ModelWish(str(models["b"]), nctx=512)).close()
        part, whole = pool.residents()
    assert part.shared_bytes < whole.shared_bytes / 2


def test_what_is_loaded_counts_on_the_machine_as_it_is(
    tmp_path: Path, scripted: Install, models: Models, own: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    scripted(FakeRuntime(name="llama_cpp"))
    machine = [PLAIN]
    monkeypatch.setattr(hardware, "probe", lambda data_dir: machine[0])
    with pool_of(tmp_path, Loads()) as pool:
        held = pool.acquire(models.wish("a"))
        size = pool.residents()[0].bytes
        # room for this one and one more; the first is in use and no mapped file
        machine[0] = replace(PLAIN, memory_free=RESERVE + size)
        own[0] += size
        with pool.acquire(models.wish("b")):
            assert names(pool.residents()) == ["a", "b"]
        held.close()
