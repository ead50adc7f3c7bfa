"""A disk that fills while a model is pulled: both numbers are told, and the next pull goes on."""

import errno
import shutil
from pathlib import Path

import pytest

from geniex_catalogue import durable
from geniex_catalogue.errors import DiskSpaceError, HubNotFoundError
from geniex_catalogue.names import parse
from geniex_catalogue.pull import execute, plan_pull, pull
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import Fault, HubServer

MODEL = gguf(500_000)


def fill(disk: Path, left: int) -> None:
    """Take all room but `left` bytes."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError as exc:
            assert exc.errno == errno.ENOSPC
        file.truncate(max(0, file.tell() - left))


@pytest.mark.parametrize("left", [0, 4096, 1_000_000])
def test_a_disk_that_fills_on_the_way(hub: HubServer, small_disk: Path, left: int) -> None:
    hub.add("org/two", {"m-Q4_0.gguf": MODEL, "m-Q8_0.gguf": gguf(3000)})
    store = Store(small_disk / "data")
    plan = plan_pull(parse("org/two:Q4_0"), store)
    hub.faults["cdn"] = [Fault(then=lambda: fill(small_disk, left))]
    with pytest.raises(DiskSpaceError, match=r"needs .* bytes\), free .* bytes\)") as caught:
        execute(plan, store)
    assert caught.value.needed > caught.value.free
    assert not hub.faults["cdn"]
    (small_disk / "ballast").unlink()
    assert pull(parse("org/two:Q4_0"), store).precisions == ("Q4_0",)
    assert store.verify(parse("org/two")) == ()


def test_what_a_full_disk_did_not_let_be_tidied_is_tidied_next(
    hub: HubServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/two", {"m-Q4_0.gguf": gguf(3000), "m-Q8_0.gguf": gguf(4000)})
    plan = plan_pull(parse("org/two:Q4_0"), store)
    hub.faults["cdn"] = [Fault(cut=5000)]
    hub.faults["resolve"] = [Fault(), Fault(404)]
    with pytest.raises(HubNotFoundError):
        execute(plan, store)
    found = store.find(parse("org/two"))
    assert found is not None and set(found.partial) == {"Q4_0"}
    plan = plan_pull(parse("org/two:Q8_0"), store)
    write = durable.write

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill_up() -> None:
        monkeypatch.setattr(durable, "write", full)

    hub.faults["resolve"] = [Fault(404, then=fill_up)]
    with pytest.raises(HubNotFoundError):
        execute(plan, store)
    found = store.find(parse("org/two"))
    assert found is not None and set(found.partial) == {"Q4_0", "Q8_0"}
    monkeypatch.setattr(durable, "write", write)
    with store.lock(parse("org/two")):
        pass
    found = store.find(parse("org/two"))
    assert found is not None and set(found.partial) == {"Q4_0"}


def test_a_disk_that_is_full_at_the_end(
    hub: HubServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/repo", {"m-Q4_0.gguf": gguf(3000)})
    plan = plan_pull(parse("org/repo"), store)
    write, usage = durable.write, shutil.disk_usage

    def full(path: Path, data: bytes) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=100))
        if path.name != "geniex.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(durable, "write", full)
    with pytest.raises(DiskSpaceError, match=r"needs 1.0 MiB .* free 100"):
        execute(plan, store)
    monkeypatch.setattr(durable, "write", write)
    monkeypatch.setattr(shutil, "disk_usage", usage)
    hub.served = 0
    assert pull(parse("org/repo"), store).precisions == ("Q4_0",)
    assert hub.served < 20_000
