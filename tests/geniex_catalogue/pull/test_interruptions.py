"""Interruptions: what has arrived stays and is gone on from, and two pull once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from geniex_catalogue.errors import GenieXError, StoreBusyError
from geniex_catalogue.model_lock import Holder
from geniex_catalogue.names import parse
from geniex_catalogue.pull import execute, plan_pull, pull
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import Fault, HubServer

ROOT = Path(__file__).parents[3]
PULL = """
import sys
from pathlib import Path
from geniex_catalogue.names import parse
from geniex_catalogue.pull import pull
from geniex_catalogue.store import Store
print(pull(parse(sys.argv[2]), Store(Path(sys.argv[1]))).precisions)
"""


def test_an_interrupted_second_precision_does_not_hide_the_first(
    repo: HubServer, store: Store
) -> None:
    first = pull(parse("org/repo:Q4_0"), store)
    plan = plan_pull(parse("org/repo:Q8_0"), store)
    repo.faults["cdn"] = [Fault(cut=5000), Fault(404)]
    repo.faults["resolve"] = [Fault(), Fault(404)]
    with pytest.raises(GenieXError):
        execute(plan, store)
    (model,) = store.list()
    assert (model.status, model.precisions, model.partial) == ("ready", ("Q4_0",), ("Q8_0",))
    assert (first.folder / "m-Q4_0.gguf").exists()
    third = pull(parse("org/repo:F16"), store)
    assert (third.precisions, third.partial) == (("Q4_0", "F16"), ("Q8_0",))
    again = plan_pull(parse("org/repo:Q8_0"), store)
    assert again.remaining == (again.total or 0) - 5000
    assert execute(again, store).precisions == ("Q4_0", "Q8_0", "F16")
    assert not (first.folder / ".inflight").exists()


@contextmanager
def child(store: Store, name: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that pulls."""
    path = os.pathsep.join(str(ROOT / root) for root in ("catalogue", "runtimes", "."))
    process = subprocess.Popen(
        [sys.executable, "-c", PULL, str(store.root), name],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def large(hub: HubServer, values: int = 2_000_000) -> bytes:
    """A model of some megabytes on the hub."""
    data = gguf(values)
    hub.add("org/large", {"large-Q8_0.gguf": data})
    return data


def arrived(store: Store) -> int:
    found = store.folder(parse("org/large")) / ".inflight" / "large-Q8_0.gguf.partial"
    return found.stat().st_size if found.exists() else 0


def wait_for(store: Store, count: int) -> None:
    """Wait until so many bytes of the large model are on the disk."""
    end = time.monotonic() + 30
    while arrived(store) < count:
        assert time.monotonic() < end, "nothing arrives"
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
@pytest.mark.parametrize("stalled", [False, True], ids=["moving", "stalled"])
def test_a_process_that_is_stopped_leaves_a_part_to_go_on_from(
    hub: HubServer, store: Store, sent: signal.Signals, stalled: bool
) -> None:
    data = large(hub)
    hub.pace = 4_000_000
    with child(store, "org/large") as process:
        wait_for(store, 2_000_000)
        if stalled:
            hub.pace = 6_000  # ten seconds to the next piece
        begin = time.monotonic()
        process.send_signal(sent)
        process.wait(10)
        assert time.monotonic() - begin < 5
    hub.pace, hub.served = None, 0
    (model,) = store.list()
    assert (model.status, model.partial) == ("partial", ("Q8_0",))
    assert model.size >= 2_000_000
    kept = arrived(store)
    assert pull(parse("org/large"), store).status == "ready"
    assert store.verify(parse("org/large")) == ()
    # besides the rest, only the header is read again; and what the hub still sent to the dead
    assert hub.served <= len(data) - kept + 1_500_000 < len(data)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_split_model_that_is_killed_between_its_shards(hub: HubServer, store: Store) -> None:
    files = {
        f"big-Q8_0-{n:05d}-of-00002.gguf": gguf(values, split__count=2, split__no=n - 1)
        for n, values in ((1, 100_000), (2, 1_500_000))
    }
    small, large = files
    hub.add("org/large", files)
    hub.pace = 4_000_000
    staged = store.folder(parse("org/large")) / ".inflight"
    part = staged / f"{large}.partial"
    with child(store, "org/large") as process:
        end = time.monotonic() + 30
        while not part.exists() or part.stat().st_size < 1_500_000:
            assert time.monotonic() < end, "nothing arrives"
            time.sleep(0.02)
        process.kill()
    (model,) = store.list()
    assert (model.status, model.partial) == ("partial", ("Q8_0",))
    plan = plan_pull(parse("org/large"), store)
    left = {job.name: plan.missing(job) for job in plan.fetches}
    assert left[small] == 0 and left[large] <= len(files[large]) - 1_000_000
    hub.pace, hub.served = None, 0
    model = execute(plan, store)
    assert hub.served <= left[large] + 500_000 < sum(map(len, files.values()))
    assert {name: (model.folder / name).read_bytes() for name in files} == files


def test_two_processes_pull_once(hub: HubServer, store: Store) -> None:
    data = large(hub)
    hub.pace = 8_000_000
    with child(store, "org/large") as one, child(store, "org/large") as two:
        answers = [process.communicate(timeout=60) for process in (one, two)]
    assert answers == [("('Q8_0',)\n", "")] * 2
    assert store.verify(parse("org/large")) == ()
    assert hub.served < len(data) * 1.2


def test_beside_a_pull_others_read_and_a_removal_waits(hub: HubServer, store: Store) -> None:
    data = gguf(2_000_000)
    hub.add("org/large", {"large-Q8_0.gguf": data, "large-Q4_0.gguf": gguf(9)})
    first = pull(parse("org/large:Q4_0"), store)
    hub.pace = 8_000_000
    told: list[Holder | None] = []
    with child(store, "org/large:Q8_0") as process:
        wait_for(store, 500_000)
        (model,) = store.list()
        assert (model.status, model.precisions, model.partial) == ("ready", ("Q4_0",), ("Q8_0",))
        assert isinstance(resolve("org/large", store), ResolvedModel)
        with pytest.raises(StoreBusyError, match=f"process {process.pid} "):
            store.discard_partial(first.ref, timeout=0)
        assert store.remove(parse("org/large:Q4_0"), on_wait=told.append) > 0
        assert process.communicate(timeout=60) == ("('Q4_0', 'Q8_0')\n", "")
    (holder,) = told
    assert holder is not None and holder.pid == process.pid
    (model,) = store.list()
    assert (model.status, model.precisions, model.partial) == ("ready", ("Q8_0",), ())
    assert store.verify(first.ref) == ()
