"""Bundles in the pool: one context, one request at a time, and what each wish is told."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex.config import Settings
from geniex.server.pool import ModelWish, Pool, PoolOptions
from geniex.speculation_wish import read_wish
from geniex_catalogue.errors import BundleError, DraftNotFoundError
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.options import SIMULATOR
from tests.geniex.scripted_bundle import CONTEXT, install_qairt, write_bundle
from tests.geniex.server.pools import Loads, eventually

NO_SPECULATION = "speculative decoding is only supported by llama_cpp; ignoring for runtime qairt"
ONLY_NPU = "qairt plugin only supports NPU inference; ignoring device='gpu' and running on NPU"
NCTX = f"`--nctx 4096` is ignored: the context of this bundle is fixed at {CONTEXT} tokens"
SPECULATING = read_wish("draft-mtp", "org/nowhere")


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    return str(write_bundle(tmp_path / "bundle"))


@pytest.fixture
def loads() -> Loads:
    return Loads()


@pytest.fixture
def pool(loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    install_qairt(monkeypatch)
    pool = Pool(Settings(tmp_path / "data"), PoolOptions(slots=4), opener=loads)
    yield pool
    pool.close()


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        pytest.param({"speculation": SPECULATING}, [NO_SPECULATION], id="speculation"),
        pytest.param({"speculation": read_wish("auto")}, [NO_SPECULATION], id="auto"),
        pytest.param({"compute": "gpu"}, [ONLY_NPU], id="compute"),
        pytest.param({"nctx": 4096}, [NCTX], id="nctx"),
        pytest.param({"nctx": 4096, "compute": "gpu"}, [ONLY_NPU, NCTX], id="both"),
    ],
)
@pytest.mark.parametrize("first", ["plain", "asking"])
def test_each_wish_is_told_what_was_ignored_of_it(
    pool: Pool, loads: Loads, bundle: str, wish: dict[str, object], says: list[str], first: str
) -> None:
    plain = ModelWish(bundle)
    asking = ModelWish(bundle, **wish)  # type: ignore[arg-type]
    turns = [plain, asking, plain, asking]
    for one in turns if first == "plain" else turns[1:]:
        with pool.acquire(one) as lease:
            assert list(lease.model.warnings) == (says if one is asking else [])
            told = lease.model.speculation
            assert (told.options.types, told.draft) == ((), None)
    assert len(loads.opened) == 1


def test_what_is_ignored_is_logged_once(
    pool: Pool, bundle: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        pool.acquire(ModelWish(bundle, nctx=4096, speculation=SPECULATING)).close()
    texts = [record.getMessage() for record in caplog.records]
    assert [NO_SPECULATION in text for text in texts].count(True) == 1
    assert [NCTX in text for text in texts].count(True) == 1


def test_one_request_runs_at_a_time_and_all_of_it_counts_as_contexts(
    pool: Pool, loads: Loads, bundle: str
) -> None:
    leases = [pool.acquire(ModelWish(bundle)) for _ in range(3)]
    [resident] = pool.residents()
    assert (resident.slots, resident.busy, resident.waiting) == (1, 1, 2)
    assert (resident.devices, resident.context_length) == ((SIMULATOR,), CONTEXT)
    assert resident.bytes > 1000 and resident.shared_bytes == 0
    assert loads.opened[0].loaded.info.slots == 1
    for lease in leases:
        lease.close(0)
    eventually(lambda: loads.fake().closed)


def test_vectors_are_refused(pool: Pool, loads: Loads, bundle: str) -> None:
    with pytest.raises(NoRuntimeError, match="gives no vectors"):
        pool.acquire(ModelWish(bundle, purpose="embedding"))
    assert not loads.begun


def test_a_faulty_bundle_is_an_error_and_the_next_one_loads(
    pool: Pool, bundle: str, tmp_path: Path
) -> None:
    broken = write_bundle(tmp_path / "broken")
    (broken / "part.bin").write_bytes(b"")
    with pytest.raises(BundleError, match=r"part\.bin"):
        pool.acquire(ModelWish(str(broken)))
    pool.acquire(ModelWish(bundle)).close()


def test_the_npu_is_required_in_vain(pool: Pool, bundle: str) -> None:
    with pytest.raises(NoRuntimeError, match="the HTP simulator is not an NPU"):
        pool.acquire(ModelWish(bundle, require="npu"))


def test_a_draft_is_looked_for_where_it_counts(pool: Pool, tiny_chat: Path) -> None:
    with pytest.raises(DraftNotFoundError):
        pool.acquire(ModelWish(str(tiny_chat), speculation=SPECULATING))
