"""What an earlier try has left: counted as it is, and dropped aloud where the hub has changed."""

import pytest

from geniex_catalogue.errors import GenieXError
from geniex_catalogue.hubs.part import Part, Writer
from geniex_catalogue.names import parse
from geniex_catalogue.pull import execute, plan_pull
from geniex_catalogue.pull_plan import arrived
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import Fault, HubServer

CUT = 5000


@pytest.mark.parametrize("changed", [False, True])
def test_bytes_of_another_version_are_not_counted_and_that_is_said(
    repo: HubServer, store: Store, changed: bool
) -> None:
    ref, files = parse("org/repo:Q8_0"), repo.repos["org/repo"].files
    first = plan_pull(ref, store)
    repo.faults["cdn"] = [Fault(cut=CUT), Fault(404)]
    repo.faults["resolve"] = [Fault(), Fault(404)]
    with pytest.raises(GenieXError):
        execute(first, store)
    if changed:
        data = files["m-Q8_0.gguf"]
        files["m-Q8_0.gguf"] = data[:-1] + bytes([data[-1] ^ 1])
    plan = plan_pull(ref, store)
    kept = 0 if changed else CUT
    assert [arrived(job) for job in plan.fetches] == [kept]
    assert plan.remaining == (plan.total or 0) - kept
    assert plan.needed == (plan.total or 0) - CUT, "room is there for what is dropped"
    told: list[str] = []
    model = execute(plan, store, note=told.append)
    assert (model.folder / "m-Q8_0.gguf").read_bytes() == files["m-Q8_0.gguf"]
    assert [("another version" in text, "4.9 KiB" in text) for text in told] == [
        (True, True)
    ] * changed


def test_holes_of_a_part_take_no_room(hub: HubServer, store: Store) -> None:
    hub.add("org/large", {"large-Q8_0.gguf": gguf(2_000_000)})
    plan = plan_pull(parse("org/large"), store)
    (job,) = plan.fetches
    assert plan.manifest is not None
    store.stage(plan.ref, plan.manifest)
    with Part(job.part, sha256=job.sha256, size=job.size) as part:
        for first in (0, 7 << 20):
            with Writer(part, first, epoch=part.epoch) as writer:
                writer.write(b"x" * (64 << 10))
        part.note(all_of_it=True)
    (model,) = store.list()
    assert 128 << 10 <= model.size < 1 << 20 < job.part.stat().st_size
