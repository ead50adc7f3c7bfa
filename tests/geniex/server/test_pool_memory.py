"""What the pool gives up and when: memory that is short, time that has passed, words of a user."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from geniex.server.pool import Lease, ModelWish, Pool
from geniex.session import Answer, AnswerOptions
from geniex.speculation_wish import read_wish
from geniex_catalogue.errors import LoadCancelledError, ModelNotFoundError, ServerBusyError
from geniex_runtimes import hardware
from geniex_runtimes.errors import MemoryBudgetError
from geniex_runtimes.fake import FakeRuntime, Script
from tests.geniex.conftest import MACHINE
from tests.geniex.server.pools import CONTEXT, Going, Loads, Models, eventually, names, pool_of

Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.fixture
def models(tmp_path: Path, tiny_chat: Path) -> Models:
    folder = tmp_path / "models"
    folder.mkdir()
    return Models(folder, tiny_chat)


@pytest.fixture
def loads(scripted: Install) -> Loads:
    scripted(FakeRuntime(Script(("a",) * 5, delay=0.001), name="llama_cpp"))
    return Loads()


def use(pool: Pool, models: Models, *letters: str) -> None:
    for letter in letters:
        pool.acquire(models.wish(letter)).close()


@pytest.fixture
def size(tmp_path: Path, loads: Loads, models: Models) -> int:
    """Bytes that one of the models takes with its contexts."""
    with pool_of(tmp_path, Loads()) as pool:
        use(pool, models, "a")
        return pool.residents()[0].bytes


def test_the_least_recently_used_goes_first(
    tmp_path: Path, loads: Loads, models: Models, size: int
) -> None:
    with pool_of(tmp_path, loads, memory_budget=3 * size) as pool:
        use(pool, models, "a", "b", "c", "a", "d")
        assert names(pool.residents()) == ["a", "c", "d"]
        assert [model.loaded.closed for model in loads.opened] == [  # type: ignore[attr-defined]
            False, True, False, False
        ]  # fmt: skip
        use(pool, models, "b")
        assert names(pool.residents()) == ["a", "b", "d"]


def test_what_is_in_use_stays_and_the_newcomer_is_told_to_wait(
    tmp_path: Path, loads: Loads, models: Models, size: int
) -> None:
    with pool_of(tmp_path, loads, memory_budget=2 * size) as pool:
        a, b = pool.acquire(models.wish("a")), pool.acquire(models.wish("b"))
        with pytest.raises(ServerBusyError, match=r"c\.gguf.* MiB.*a\.gguf.*b\.gguf.*in use"):
            pool.acquire(models.wish("c"))
        assert names(pool.residents()) == ["a", "b"]
        b.close()
        with pool.acquire(models.wish("c")):
            assert names(pool.residents()) == ["a", "c"]
        assert not loads.fake(0).closed and loads.fake(1).closed
        a.close()


def test_what_is_being_loaded_counts(
    tmp_path: Path, loads: Loads, models: Models, size: int
) -> None:
    with pool_of(tmp_path, loads, memory_budget=size) as pool:
        gate = loads.hold(models["a"])
        loading = Going(pool, models.wish("a"))
        eventually(lambda: len(pool.residents()) == 1)
        with pytest.raises(ServerBusyError):
            pool.acquire(models.wish("b"))
        gate.set()
        loading.result().close()
        use(pool, models, "b")
        assert names(pool.residents()) == ["b"]


@pytest.mark.parametrize("pinned", [False, True])
def test_what_can_never_fit_is_told_with_numbers(
    tmp_path: Path, loads: Loads, models: Models, size: int, pinned: bool
) -> None:
    budget = size * 3 // 2 if pinned else size // 2
    pins = (str(models["a"]),) if pinned else ()
    with pool_of(tmp_path, loads, memory_budget=budget, pinned=pins) as pool:
        if pinned:
            use(pool, models, "a")
        with pytest.raises(MemoryBudgetError) as caught:
            pool.acquire(models.wish("b"))
        assert (caught.value.needed, caught.value.budget) == (size, budget)
        assert ("pinned models hold" in str(caught.value.hint)) == pinned
        assert len(pool.residents()) == pinned, "nothing was given up in vain"


def test_pinned_models_stay(tmp_path: Path, loads: Loads, models: Models, size: int) -> None:
    pins = (str(models["a"]), "org/not-here")
    with pool_of(tmp_path, loads, memory_budget=2 * size, pinned=pins, keep_alive=0) as pool:
        use(pool, models, "a")
        pool.acquire(models.wish("b")).close(keep_alive=None)
        use(pool, models, "c")
        eventually(lambda: names(pool.residents()) == ["a"])
        assert [(one.pinned, one.expires_in) for one in pool.residents()] == [(True, None)]
        # of a pinned model one set of contexts stays
        pool.acquire(models.wish("a", nctx=256)).close()
        eventually(lambda: len(pool.residents()) == 1)


def test_older_contexts_of_a_model_go_first_and_leave_it_the_weights(
    tmp_path: Path, loads: Loads, models: Models, size: int
) -> None:
    with pool_of(tmp_path, loads, memory_budget=2 * size + size // 2) as pool:
        use(pool, models, "b", "a")
        freed: list[tuple[bool, bool]] = []
        gate = loads.hold(models["a"])
        loading = Going(pool, models.wish("a", nctx=CONTEXT + 256))
        eventually(lambda: loads.begun[-1] == "a.gguf" and len(loads.begun) == 3)
        old = loads.fake(1)
        freed.append((old.contexts_freed, old.closed))
        gate.set()
        loading.result().close()
        eventually(lambda: old.closed)
        assert freed == [(True, False)], "the weights are there while the new contexts are made"
        assert names(pool.residents()) == ["a", "b"] and not loads.fake(0).closed


def test_weights_count_once(tmp_path: Path, loads: Loads, models: Models) -> None:
    with pool_of(tmp_path, Loads()) as pool:
        pool.acquire(models.wish("a"))
        (one,) = pool.residents()
    room = one.bytes + (one.bytes - one.shared_bytes)
    with pool_of(tmp_path, loads, memory_budget=room) as pool:
        pool.acquire(models.wish("a"))
        pool.acquire(ModelWish(str(models["a"]), CONTEXT, speculation=read_wish("ngram-simple")))
        with pytest.raises(ServerBusyError):
            pool.acquire(ModelWish(str(models["a"]), CONTEXT, speculation=read_wish("ngram-mod")))


def test_a_model_keeps_few_idle_sets_of_contexts(
    tmp_path: Path, loads: Loads, models: Models
) -> None:
    with pool_of(tmp_path, loads) as pool:
        held = pool.acquire(models.wish("a", 256))
        for length in range(257, 262):
            pool.acquire(models.wish("a", length)).close()
        lengths = sorted(one.context_length for one in pool.residents())
        assert lengths == [256, 260, 261]
        held.close()


def test_a_context_that_was_left_to_us_is_what_fits_all_slots(
    tmp_path: Path, loads: Loads, models: Models
) -> None:
    with pool_of(tmp_path, Loads(), slots=8) as pool:
        pool.acquire(ModelWish(str(models["a"])))
        (whole,) = pool.residents()
    with pool_of(tmp_path, loads, slots=8, memory_budget=whole.bytes - 1) as pool:
        pool.acquire(ModelWish(str(models["a"])))
        assert [one.context_length for one in pool.residents()] == [whole.context_length // 2]
        with pytest.raises(MemoryBudgetError):
            pool.acquire(ModelWish(str(models["b"]), nctx=whole.context_length))


def test_a_context_that_was_left_to_us_leaves_room_for_who_is_busy(
    tmp_path: Path, loads: Loads, models: Models
) -> None:
    with pool_of(tmp_path, Loads(), slots=8) as pool:
        pool.acquire(ModelWish(str(models["a"])))
        (whole,) = pool.residents()
    with pool_of(tmp_path, loads, slots=8, memory_budget=whole.bytes * 7 // 4) as pool:
        pool.acquire(ModelWish(str(models["a"])))
        pool.acquire(ModelWish(str(models["b"])))
        lengths = [one.context_length for one in pool.residents()]
        assert lengths == [whole.context_length, whole.context_length // 2]


def test_every_slot_counts(tmp_path: Path, loads: Loads, models: Models) -> None:
    sizes = []
    for slots in (1, 5, 9):
        with pool_of(tmp_path, Loads(), slots=slots) as pool:
            use(pool, models, "a")
            sizes.append(pool.residents()[0].bytes)
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


def test_without_a_limit_the_machine_sets_it(
    tmp_path: Path, loads: Loads, models: Models, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = MACHINE.memory_total // 16
    machine = replace(MACHINE, memory_free=reserve + size + size // 2)
    monkeypatch.setattr(hardware, "probe", lambda data_dir: machine)
    # what the process takes beside the models would be measured
    monkeypatch.setattr("geniex.server.footprint._own_bytes", lambda: 0)
    with pool_of(tmp_path, loads) as pool:
        use(pool, models, "a", "b")
        assert names(pool.residents()) == ["b"]
        big = pool.acquire(models.wish("c", nctx=16384))
        assert "this may be very slow" in " ".join(big.model.warnings)
        assert names(pool.residents()) == ["c"], "alone it is let in: the estimate is no promise"
        with pytest.raises(ServerBusyError):
            pool.acquire(models.wish("a"))


def test_idle_counts_from_the_end_of_the_last_request(
    tmp_path: Path, loads: Loads, models: Models
) -> None:
    with pool_of(tmp_path, loads, keep_alive=0.2) as pool:
        first, second = pool.acquire(models.wish("a")), pool.acquire(models.wish("a"))
        first.close()
        time.sleep(0.5)
        (one,) = pool.residents()
        assert (one.busy, one.expires_in) == (1, None)
        closed_at = time.monotonic()
        second.close()
        eventually(lambda: loads.fake().closed)
        assert time.monotonic() - closed_at >= 0.2
        assert pool.residents() == []


@pytest.mark.parametrize(
    ("default", "own", "stays"),
    [
        pytest.param(None, 0, False, id="at-once"),
        pytest.param(0, None, True, id="for-ever"),
        pytest.param(0.0, -1, True, id="negative"),
        pytest.param(0.0, float("inf"), True, id="endless"),
        pytest.param(0.0, float("nan"), True, id="not-a-number"),
        pytest.param(0, 3600, True, id="an-hour"),
        pytest.param(-1, 0.01, False, id="soon"),
    ],
)
def test_a_request_says_how_long_its_model_stays(
    tmp_path: Path, loads: Loads, models: Models, default: float | None, own: float, stays: bool
) -> None:
    with pool_of(tmp_path, loads, keep_alive=default) as pool:
        pool.acquire(models.wish("a")).close(keep_alive=own)
        pool.acquire(models.wish("b")).close(keep_alive=0)
        eventually(lambda: names(pool.residents()) == (["a"] if stays else []))
        if stays:
            (one,) = pool.residents()
            assert (one.expires_in is None) == (own != 3600)


def test_the_last_request_decides(tmp_path: Path, loads: Loads, models: Models) -> None:
    with pool_of(tmp_path, loads, keep_alive=3600) as pool:
        first, second = pool.acquire(models.wish("a")), pool.acquire(models.wish("a"))
        first.close(keep_alive=0)
        second.close()
        (one,) = pool.residents()
        assert one.expires_in is not None and one.expires_in > 3000


def test_unload_ends_idle_ones_now_and_busy_ones_later(
    tmp_path: Path, loads: Loads, models: Models
) -> None:
    with pool_of(tmp_path, loads, pinned=(str(models["a"]),)) as pool:
        use(pool, models, "a", "b")
        busy = pool.acquire(models.wish("a", nctx=256))
        events = iter(busy.model.complete("hi", AnswerOptions()))
        next(events)
        assert pool.unload(str(models["a"])) == 2
        eventually(lambda: loads.fake(0).closed)
        assert not loads.fake(2).closed
        assert isinstance([*events][-1], Answer)
        with pool.acquire(models.wish("a", nctx=256)) as new:
            assert new.model is not busy.model
        busy.close()
        eventually(lambda: loads.fake(2).closed)
        assert names(pool.residents()) == ["a", "b"]
        assert pool.unload(str(models["c"])) == 0
        with pytest.raises(ModelNotFoundError):
            pool.unload("org/nothing")


def test_a_model_whose_file_is_gone_can_still_be_unloaded(
    tmp_path: Path, loads: Loads, models: Models
) -> None:
    with pool_of(tmp_path, loads) as pool:
        use(pool, models, "a")
        name = pool.residents()[0].id
        models["a"].unlink()
        with pytest.raises(ModelNotFoundError):
            pool.acquire(ModelWish(name, CONTEXT))
        assert pool.unload(name) == 1
        eventually(lambda: pool.residents() == [])


def test_many_requests_at_random_leave_nothing_behind(
    tmp_path: Path, loads: Loads, models: Models, size: int
) -> None:
    """Three models fit, five are asked for; some who ask leave early, some models are unloaded."""
    wishes = [models.wish(letter, nctx) for letter in "abcde" for nctx in (256, CONTEXT)]
    unexpected: list[Exception] = []
    served = threading.Semaphore(0)

    def client(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(12):
            gone = threading.Event() if dice.random() < 0.3 else None
            if gone is not None:
                threading.Timer(dice.random() * 0.02, gone.set).start()
            try:
                lease: Lease = pool.acquire(dice.choice(wishes), gone)
                with lease:
                    *_, answer = lease.model.complete("hi", AnswerOptions())
                    assert isinstance(answer, Answer) and answer.content == "aaaaa"
                    served.release()
                    lease.close(dice.choice((None, 0, 0.01)))
                if dice.random() < 0.1:
                    pool.unload(lease.name)
            except (ServerBusyError, LoadCancelledError):
                continue
            except Exception as exc:
                unexpected.append(exc)

    with pool_of(tmp_path, loads, memory_budget=3 * size, max_queue=4) as pool:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(client, range(6)))
        assert unexpected == []
        eventually(lambda: all(one.busy == one.waiting == 0 for one in pool.residents()))
        eventually(lambda: not any(one.loading for one in pool.residents()))
        assert served.acquire(blocking=False)
    assert all(model.loaded.closed for model in loads.opened)  # type: ignore[attr-defined]
    assert len(loads.opened) > 5
