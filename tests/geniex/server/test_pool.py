"""The pool as requests meet it: leases, loads that are shared, errors, and the end."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from geniex.server.pool import ModelWish, Pool
from geniex.session import Answer, AnswerOptions, OpenModel
from geniex.speculation_wish import read_wish
from geniex_catalogue.errors import (
    DraftNotFoundError,
    GenieXError,
    LoadCancelledError,
    LoadError,
    ModelNotFoundError,
    ServerBusyError,
    UsageError,
)
from geniex_runtimes.errors import NoRuntimeError, SpeculativeError
from geniex_runtimes.fake import FakeRuntime, Script
from tests.geniex.server.pools import Going, Loads, Models, eventually, names, pool_of

Install = Callable[[FakeRuntime], FakeRuntime]
HI = "hi"
MTP = read_wish("draft-mtp", "geniex/tiny-chat-draft")


@pytest.fixture
def models(tmp_path: Path, tiny_chat: Path) -> Models:
    folder = tmp_path / "models"
    folder.mkdir()
    return Models(folder, tiny_chat)


@pytest.fixture
def runtime(scripted: Install) -> FakeRuntime:
    return scripted(FakeRuntime(name="llama_cpp"))


@pytest.fixture
def loads(runtime: FakeRuntime) -> Loads:
    return Loads()


@pytest.fixture
def pool(tmp_path: Path, loads: Loads) -> Iterator[Pool]:
    with pool_of(tmp_path, loads) as made:
        yield made


def said(model: OpenModel) -> str:
    *_, answer = model.complete(HI, AnswerOptions())
    assert isinstance(answer, Answer)
    return answer.content


def test_a_lease_answers_and_the_model_stays(pool: Pool, loads: Loads) -> None:
    with pool.acquire(ModelWish()) as lease:
        assert said(lease.model) == "Hello, world!"
        (one,) = pool.residents()
        assert (one.id, one.busy, one.waiting, one.idle_for) == (lease.name, 1, 0, None)
        assert one.id == "geniex/tiny-chat:Q8_0" and one.bytes > one.shared_bytes > 3e6
    lease.close()
    (one,) = pool.residents()
    assert (one.busy, one.expires_in, one.pinned) == (0, None, False)
    assert one.idle_for is not None and one.idle_for >= 0
    assert not loads.fake().closed


def test_spellings_of_one_thing_are_one_model(
    pool: Pool, loads: Loads, models: Models, tiny_chat: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tiny_chat)
    wishes = [
        ModelWish(),
        ModelWish("geniex/tiny-chat"),
        ModelWish("GenieX/tiny-chat:q8_0"),
        ModelWish(str(tiny_chat)),
        ModelWish(str(link)),
        ModelWish("geniex/tiny-chat", nctx=4096),
        ModelWish("geniex/tiny-chat", ngl=-1),
        ModelWish("geniex/tiny-chat", ngl=0),
        ModelWish("geniex/tiny-chat", compute="CPU"),
        ModelWish("geniex/tiny-chat", speculation=read_wish("none", draft_tokens=5)),
        ModelWish("geniex/tiny-chat", speculation=read_wish("none", "org/not-here")),
    ]
    leases = [pool.acquire(wish) for wish in wishes]
    found = {id(lease.model.loaded) for lease in leases}
    assert len(found) == len(loads.opened) == len(pool.residents()) == 1
    # each is told the name that it asked for
    names_told = {lease.name for lease in leases}
    assert names_told == {"geniex/tiny-chat:Q8_0", str(tiny_chat), str(link)}
    assert {lease.model.resolved.name for lease in leases} == names_told


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(ModelWish(nctx=256), id="nctx"),
        pytest.param(ModelWish(speculation=MTP), id="speculation"),
        pytest.param(ModelWish(speculation=read_wish("ngram-simple")), id="other-type"),
        pytest.param(ModelWish(purpose="embedding"), id="embedding"),
    ],
)
def test_other_options_have_contexts_of_their_own(
    pool: Pool, loads: Loads, runtime: FakeRuntime, wish: ModelWish
) -> None:
    first = pool.acquire(ModelWish())
    answering = first.model.complete(HI, AnswerOptions())
    second = pool.acquire(wish)
    assert second.model is not first.model and len(pool.residents()) == 2
    assert isinstance([*answering][-1], Answer), "what ran goes on"
    options = runtime.loads[-1]
    assert options.slots == 2 and options.keep_heads
    assert options.embedding == (wish.purpose == "embedding")
    assert options.speculative.types == wish.speculation.options.types
    assert (options.draft is not None) == (wish.speculation.draft is not None)
    assert pool.acquire(wish).model is second.model


@pytest.mark.parametrize(
    ("field", "value"), [("draft_tokens", 5), ("draft_min", 1), ("draft_p_min", 0.5)]
)
def test_numbers_of_speculation_belong_to_the_key(
    pool: Pool, runtime: FakeRuntime, field: str, value: float
) -> None:
    wished = ModelWish(speculation=MTP)
    first = pool.acquire(wished)
    other = read_wish("draft-mtp", "geniex/tiny-chat-draft", **{field: value})  # type: ignore[arg-type]
    assert pool.acquire(ModelWish(speculation=other)).model is not first.model
    assert runtime.loads[0].speculative != runtime.loads[1].speculative


def test_a_load_blocks_nobody_else(pool: Pool, loads: Loads, models: Models) -> None:
    pool.acquire(models.wish("a")).close()
    gate = loads.hold(models["b"])
    loading = Going(pool, models.wish("b"))
    eventually(lambda: "b.gguf" in loads.begun)
    with pool.acquire(models.wish("a")) as lease:
        assert said(lease.model) == "Hello, world!"
        a, b = pool.residents()
        assert (a.busy, a.loading, b.loading, b.busy, b.waiting) == (1, False, True, 0, 1)
    pool.acquire(models.wish("c")).close()
    gate.set()
    assert said(loading.result().model) == "Hello, world!"


def test_who_comes_during_a_load_shares_it(pool: Pool, loads: Loads, models: Models) -> None:
    gate = loads.hold(models["a"])
    several = [Going(pool, models.wish("a")) for _ in range(3)]
    eventually(lambda: [one.waiting for one in pool.residents()] == [3])
    gate.set()
    leases = [one.result() for one in several]
    assert len({id(lease.model) for lease in leases}) == len(loads.begun) == 1


def test_a_failed_load_says_why_and_is_tried_anew(
    pool: Pool, loads: Loads, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = pool.acquire(models.wish("a"))
    gate = loads.hold(models["b"])
    several = [Going(pool, models.wish("b")) for _ in range(2)]
    eventually(lambda: [one.waiting for one in pool.residents()] == [0, 2])
    with monkeypatch.context() as broken:

        def fail(*_: object, **__: object) -> None:
            raise LoadError("`b.gguf` is broken")

        broken.setattr(FakeRuntime, "load", fail)
        gate.set()
        for one in several:
            with pytest.raises(LoadError, match="broken"):
                one.result()
    assert names(pool.residents()) == ["a"]
    assert said(running.model) == "Hello, world!"
    assert said(pool.acquire(models.wish("b")).model) == "Hello, world!"


def test_an_unexpected_failure_is_an_error_of_ours(
    pool: Pool, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(FakeRuntime, "load", fail)
    with pytest.raises(LoadError, match="RuntimeError") as caught:
        pool.acquire(models.wish("a"))
    assert "secret" not in str(caught.value)
    assert pool.residents() == []


def test_a_load_that_nobody_waits_for_is_given_up(pool: Pool, loads: Loads, models: Models) -> None:
    loads.hold(models["a"])
    gone = threading.Event()
    waiting = Going(pool, models.wish("a"), gone)
    eventually(lambda: loads.begun == ["a.gguf"])
    gone.set()
    with pytest.raises(LoadCancelledError, match=r"a\.gguf"):
        waiting.result()
    eventually(lambda: pool.residents() == [])
    assert loads.opened == [] and isinstance(loads.errors[0], LoadError)


def test_a_load_that_one_still_waits_for_goes_on(pool: Pool, loads: Loads, models: Models) -> None:
    gate, gone = loads.hold(models["a"]), threading.Event()
    leaving, staying = Going(pool, models.wish("a"), gone), Going(pool, models.wish("a"))
    eventually(lambda: [one.waiting for one in pool.residents()] == [2])
    gone.set()
    with pytest.raises(LoadCancelledError):
        leaving.result()
    gate.set()
    assert said(staying.result().model) == "Hello, world!"
    assert [one.busy for one in pool.residents()] == [1]


def test_who_is_gone_already_loads_nothing(pool: Pool, loads: Loads, models: Models) -> None:
    gone = threading.Event()
    gone.set()
    with pytest.raises(LoadCancelledError):
        pool.acquire(models.wish("a"), gone)
    assert loads.begun == []


def test_more_than_slots_and_queue_is_busy(tmp_path: Path, loads: Loads, models: Models) -> None:
    with pool_of(tmp_path, loads, slots=2, max_queue=1) as pool:
        leases = [pool.acquire(models.wish("a")) for _ in range(3)]
        (one,) = pool.residents()
        assert (one.busy, one.waiting, one.slots) == (2, 1, 2)
        with pytest.raises(ServerBusyError) as caught:
            pool.acquire(models.wish("a"))
        assert caught.value.retry_after >= 1 and "2 requests" in str(caught.value)
        pool.acquire(models.wish("b")).close()
        leases[0].close()
        leases[0].close()
        leases[0] = pool.acquire(models.wish("a"))
        with pytest.raises(ServerBusyError):
            pool.acquire(models.wish("a"))


def test_a_file_that_was_replaced_is_another_model(
    pool: Pool, loads: Loads, models: Models, tmp_path: Path
) -> None:
    held = pool.acquire(models.wish("a"))
    new = Path(shutil.copy(models["a"], tmp_path / "new"))
    os.replace(new, models["a"])  # noqa: PTH105
    with pool.acquire(models.wish("a")) as lease:
        assert lease.model is not held.model
    assert not loads.fake(0).closed, "it is still in use"
    held.close()
    eventually(lambda: loads.fake(0).closed)
    assert len(pool.residents()) == 1 and not loads.fake(1).closed


def test_a_model_that_is_not_here_comes_with_names_that_are_alike(pool: Pool) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        pool.acquire(ModelWish("geniex/tiny-chap"))
    assert caught.value.suggestions[0] == "geniex/tiny-chat"


@pytest.mark.parametrize(
    ("wish", "error", "told"),
    [
        (ModelWish("org/none"), ModelNotFoundError, "geniex pull org/none"),
        (ModelWish("geniex/tiny-chap"), ModelNotFoundError, "geniex pull geniex/tiny-chap"),
        (ModelWish("./nothing.gguf"), ModelNotFoundError, "nothing.gguf"),
        (ModelWish(compute="tpu"), UsageError, "tpu"),
        (ModelWish(compute="gpu"), NoRuntimeError, "no GPU device"),
        (ModelWish(speculation=read_wish("draft-mtp")), UsageError, "geniex/tiny-chat-draft"),
        (
            ModelWish(speculation=read_wish("draft-mtp", "org/draft")),
            DraftNotFoundError,
            "geniex pull org/draft",
        ),
        (
            ModelWish(speculation=read_wish("draft-mtp", "./no.gguf")),
            DraftNotFoundError,
            "no.gguf",
        ),
        (
            ModelWish(speculation=read_wish("draft-mtp", "geniex/tiny-chat")),
            SpeculativeError,
            "does not fit",
        ),
    ],
)
def test_what_cannot_be_met_is_told_and_loads_nothing(
    pool: Pool, loads: Loads, wish: ModelWish, error: type[GenieXError], told: str
) -> None:
    for _ in range(2):
        with pytest.raises(error) as caught:
            pool.acquire(wish)
        assert told in f"{caught.value} {caught.value.hint}"
    assert loads.begun == [] and pool.residents() == []


def test_a_draft_that_is_no_model_is_unsuitable(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no GGUF at all")
    spoiled = read_wish("draft-mtp", str(tmp_path / "text.gguf"))
    with pytest.raises(SpeculativeError, match="cannot be used"):
        pool.acquire(ModelWish(speculation=spoiled))


def test_auto_takes_what_is_here(pool: Pool, runtime: FakeRuntime) -> None:
    with pool.acquire(ModelWish(speculation=read_wish("auto"))):
        (one,) = pool.residents()
    assert one.speculation == ("draft-mtp",)
    # what came to the same thing by another wish is the same
    wish = ModelWish(speculation=replace(MTP, draft="geniex/tiny-chat-draft:Q8_0"))
    pool.acquire(wish).close()
    assert len(runtime.loads) == 1


def test_the_end_cancels_answers_and_loads(
    scripted: Install, tmp_path: Path, models: Models
) -> None:
    scripted(FakeRuntime(Script(("a",) * 100, delay=0.05), name="llama_cpp"))
    loads = Loads()
    loads.hold(models["b"])
    with pool_of(tmp_path, loads) as pool:
        lease = pool.acquire(models.wish("a"))
        answering = iter(lease.model.complete(HI, AnswerOptions()))
        next(answering)
        waiting = Going(pool, models.wish("b"))
        eventually(lambda: "b.gguf" in loads.begun)
        pool.close()
        *_, answer = answering
        assert isinstance(answer, Answer) and answer.finish_reason == "cancelled"
        with pytest.raises(ServerBusyError, match="ending"):
            waiting.result()
        with pytest.raises(ServerBusyError, match="ending"):
            pool.acquire(models.wish("a"))
        lease.close()
        assert pool.residents() == [] and len(loads.opened) == 1 and loads.fake().closed
        pool.close()
