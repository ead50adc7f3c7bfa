"""Pulling: from a name to files in the store, interrupted, repeated, and by many at once."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from geniex_catalogue.errors import (
    AmbiguousModelError,
    DiskSpaceError,
    GenieXError,
    GGUFError,
    HubAuthError,
    HubError,
    IncompleteShardsError,
    ModelNotFoundError,
    ModelRefError,
    PrecisionNotFoundError,
    UsageError,
)
from geniex_catalogue.names import parse
from geniex_catalogue.pull import execute, plan_pull, pull
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.ggufwriter import build, entry, tensor
from tests.hubserver import COMMIT, Fault, HubServer

ROOT = Path(__file__).parents[2]
PULL = """
import sys
from pathlib import Path
from geniex_catalogue.names import parse
from geniex_catalogue.pull import pull
from geniex_catalogue.store import Store
print(pull(parse(sys.argv[2]), Store(Path(sys.argv[1]))).precisions)
"""


def gguf(values: int = 2000, **metadata: object) -> bytes:
    """A GGUF with one tensor of random values."""
    given = {key.replace("__", "."): value for key, value in metadata.items()}
    facts = {"general.architecture": "llama", **given}
    listed = [entry(key, value) for key, value in facts.items()]
    name = f"blk.{no}.x" if (no := metadata.get("split__no")) else "token_embd.weight"
    head = build(listed, [tensor(name, [values])])
    return head + random.Random(values).randbytes(4 * values)


def shards(count: int) -> dict[str, bytes]:
    """A split model of Q4_0."""
    names = [f"big-Q4_0-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1)]
    return {name: gguf(100 + at, split__count=count, split__no=at) for at, name in enumerate(names)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


@pytest.fixture
def repo(hub: HubServer) -> HubServer:
    """A hub with a model in three precisions."""
    files = {f"m-{label}.gguf": gguf(n) for n, label in enumerate(["Q8_0", "Q4_0", "F16"], 3000)}
    hub.add("org/repo", {**files, "README.md": b"#"})
    return hub


def test_pull_takes_the_best_precision_and_says_what_it_is(repo: HubServer, store: Store) -> None:
    model = pull(parse("org/repo"), store)
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    assert (model.status, model.precisions) == ("ready", ("Q4_0",))
    (record,) = model.records("Q4_0")
    assert model.path(record).read_bytes() == data
    assert record.sha256 == hashlib.sha256(data).hexdigest()
    assert (record.size, record.revision, record.source) == (len(data), COMMIT, "huggingface")
    left = {path.name for path in model.folder.iterdir()}
    assert left - {".lock"} == {"geniex.json", "m-Q4_0.gguf"}
    assert store.verify(model.ref) == ()


@pytest.mark.parametrize("name", ["org/repo", "org/repo:q4_0", "org/repo:m-Q4_0.gguf"])
def test_a_second_pull_asks_nobody(repo: HubServer, store: Store, name: str) -> None:
    first = pull(parse("org/repo:Q4_0"), store)
    repo.seen.clear()
    plan = plan_pull(parse(name), store)
    assert plan.present == first
    assert str(plan.ref) == "org/repo:Q4_0"
    assert execute(plan, store) == first
    assert not repo.seen


def test_another_precision_keeps_the_first(repo: HubServer, store: Store) -> None:
    pull(parse("org/repo:Q8_0"), store)
    assert pull(parse("org/repo:F16"), store).precisions == ("Q8_0", "F16")
    assert store.verify(parse("org/repo")) == ()


def test_a_revision_with_the_same_bytes_is_here(repo: HubServer, store: Store) -> None:
    first = pull(parse("org/repo"), store)
    repo.served = 0
    assert pull(parse("org/repo"), store, revision="main") == first
    repo.repos["org/repo"].files["m-Q4_0.gguf"] = newer = gguf(4000)
    model = pull(parse("org/repo"), store, revision="main")
    assert (model.folder / "m-Q4_0.gguf").read_bytes() == newer


def test_the_plan_has_all_the_numbers(repo: HubServer, store: Store) -> None:
    plan = plan_pull(parse("org/repo:Q8_0"), store)
    size = len(repo.repos["org/repo"].files["m-Q8_0.gguf"])
    assert (str(plan.ref), plan.hub, plan.revision) == ("org/repo:Q8_0", "huggingface", COMMIT)
    assert (plan.total, plan.remaining) == (size, size)
    assert plan.target == store.root / "models" / "org" / "repo"
    assert plan.free > 0
    assert plan.present is None
    assert not store.root.exists(), "a plan writes nothing"


def test_shards_come_in_order(hub: HubServer, store: Store) -> None:
    hub.add("org/big", shards(3))
    model = pull(parse("org/big"), store)
    assert [record.name for record in model.records("Q4_0")] == list(shards(3))
    assert store.verify(model.ref) == ()


@pytest.mark.parametrize("stated", [3, 4])
def test_shards_that_are_no_set_are_refused(hub: HubServer, store: Store, stated: int) -> None:
    files = shards(3)
    first, _, third = files
    files[first] = gguf(100, split__count=3, split__no=0, split__tensors__count=stated)
    if stated == 3:
        files[third] = gguf(102, split__count=3, split__no=1)
    hub.add("org/big", files)
    with pytest.raises(GGUFError, match=r"part 2 of 3|hold 3 tensors, where 4") as caught:
        pull(parse("org/big"), store)
    assert caught.value.hint == "the files on the hub are broken"
    found = store.find(parse("org/big"))
    assert found is not None and found.precisions == ()


def test_files_in_folders(hub: HubServer, store: Store) -> None:
    hub.add("org/deep", {"Q4_0/m.gguf": gguf(10), "Q8_0/m.gguf": gguf(11)})
    model = pull(parse("org/deep:Q8_0"), store)
    assert model.precisions == ("Q8_0",)
    assert (model.folder / "Q8_0" / "m.gguf").read_bytes() == gguf(11)


def test_a_hub_that_states_nothing(repo: HubServer, store: Store) -> None:
    repo.repos["org/repo"].facts = False
    model = pull(parse("org/repo"), store)
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    assert model.records("Q4_0")[0].sha256 == hashlib.sha256(data).hexdigest()


class Choice(NamedTuple):
    """A repository, what is asked of it, and the file that must come, under which label."""

    files: dict[str, bytes]
    name: str
    file: str
    label: str


DRAFT = gguf(20, general__architecture="gemma4-assistant")
CHOICES = {
    "label-from-header": Choice({"m.gguf": gguf(general__file_type=7)}, "", "m.gguf", "Q8_0"),
    "asked-label-from-header": Choice(
        {"m.gguf": gguf(9, general__file_type=7), "m-F16.gguf": gguf(8)}, ":Q8_0", "m.gguf", "Q8_0"
    ),
    "draft-named-like-a-model": Choice(
        {"a-Q4_0.gguf": DRAFT, "m-Q8_0.gguf": gguf(9)}, "", "m-Q8_0.gguf", "Q8_0"
    ),
    "draft-of-the-same-label": Choice(
        {"a-Q4_0.gguf": DRAFT, "m-Q4_0.gguf": gguf(9)}, ":Q4_0", "m-Q4_0.gguf", "Q4_0"
    ),
    "repository-of-a-draft": Choice({"a-Q4_0.gguf": DRAFT}, "", "a-Q4_0.gguf", "Q4_0"),
    "draft-by-file": Choice(
        {"a-Q4_0.gguf": DRAFT, "m-Q4_0.gguf": gguf(9)},
        ":a-Q4_0.gguf",
        "a-Q4_0.gguf",
        "a-Q4_0.gguf",
    ),
    "one-of-two-of-a-label": Choice(
        {"a-Q4_0.gguf": gguf(7), "b-Q4_0.gguf": gguf(9)},
        ":b-Q4_0.gguf",
        "b-Q4_0.gguf",
        "b-Q4_0.gguf",
    ),
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_names_choose_and_headers_confirm(hub: HubServer, store: Store, choice: Choice) -> None:
    hub.add("org/x", choice.files)
    model = pull(parse("org/x" + choice.name), store)
    assert model.precisions == (choice.label,)
    assert [record.name for record in model.records(choice.label)] == [choice.file]
    again = plan_pull(parse("org/x" + choice.name), store)
    assert again.present is not None


class Refusal(NamedTuple):
    """A repository, what is asked of it, and the error."""

    files: dict[str, bytes]
    name: str
    error: type[GenieXError]
    text: str


REFUSALS = {
    "precision": Refusal(
        {"m-Q8_0.gguf": gguf()}, "org/x:Q4_0", PrecisionNotFoundError, "available: Q8_0"
    ),
    "two-of-a-label": Refusal(
        {"a-Q4_0.gguf": gguf(7), "b-Q4_0.gguf": gguf(9)}, "org/x", AmbiguousModelError, "b-Q4_0"
    ),
    "shard-missing": Refusal(
        dict(list(shards(3).items())[:2]), "org/x", IncompleteShardsError, "00003-of-00003"
    ),
    "no-model": Refusal({"model.safetensors": b"x"}, "org/x", ModelNotFoundError, "org/x"),
    "no-gguf": Refusal({"m-Q4_0.gguf": b"version https://git-lfs"}, "org/x", GGUFError, "m-Q4_0"),
    "up": Refusal({"../m-Q4_0.gguf": gguf()}, "org/x", ModelNotFoundError, "org/x"),
    "up-later": Refusal({"a/../../m-Q4_0.gguf": gguf()}, "org/x", GenieXError, ""),
    "absolute": Refusal({"/etc/m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "cannot be stored"),
    "long": Refusal({"m" * 300 + "-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "cannot be stored"),
    "long, as a part": Refusal(
        {"m" * 240 + "-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "cannot be stored"
    ),
    "ai-hub": Refusal({}, "qualcomm/Qwen3-4B", HubError, "cannot be pulled from yet"),
    "local": Refusal({}, "local/mine", ModelNotFoundError, "local/mine"),
    "built-in": Refusal({}, "geniex/tiny-chat", UsageError, "built in"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_refused_before_anything_is_written(hub: HubServer, store: Store, refusal: Refusal) -> None:
    hub.add("org/x", refusal.files)
    with pytest.raises(refusal.error) as caught:
        pull(parse(refusal.name), store)
    assert refusal.text in caught.value.message
    assert not store.root.exists()


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a:b-Q8_0.gguf", "a_b-Q8_0.gguf"),
        ("a b %41-Q8_0.gguf", "a b _41-Q8_0.gguf"),
        ("C:\\m-Q8_0.gguf", "C__m-Q8_0.gguf"),
        ("Q8_0/con.gguf", "Q8_0/_con.gguf"),
        ("m\0\n-Q8_0.gguf", "m__-Q8_0.gguf"),
    ],
)
def test_odd_names_of_files_are_stored_as_safe_ones(
    hub: HubServer, store: Store, name: str, stored: str
) -> None:
    hub.add("org/x", {name: gguf()})
    model = pull(parse("org/x"), store)
    assert (model.status, model.precisions) == ("ready", ("Q8_0",))
    assert [record.name for record in model.records("Q8_0")] == [stored]
    assert plan_pull(parse("org/x"), store, revision="main").present is not None
    assert isinstance(resolve("org/x:Q8_0", store), ResolvedModel)


def test_too_little_room_is_known_before_the_first_byte(
    repo: HubServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
    with pytest.raises(DiskSpaceError) as caught:
        pull(parse("org/repo"), store)
    size = len(repo.repos["org/repo"].files["m-Q4_0.gguf"])
    assert (caught.value.needed - size, caught.value.free) == (1 << 20, 1_000_000)
    assert not store.root.exists()


def test_no_access_leaves_nothing(repo: HubServer, store: Store) -> None:
    repo.repos["org/repo"].gated = True
    with pytest.raises(HubAuthError):
        pull(parse("org/repo"), store)
    assert store.list() == []
    model = pull(parse("org/repo"), store, token="hf_secret")
    assert "hf_secret" not in (model.folder / "geniex.json").read_text()


def test_a_transfer_that_never_begins_leaves_nothing(repo: HubServer, store: Store) -> None:
    plan = plan_pull(parse("org/repo"), store)
    del repo.repos["org/repo"].files["m-Q4_0.gguf"]
    with pytest.raises(HubError):
        execute(plan, store)
    assert store.list() == []
    assert not plan.target.exists()


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
            hub.pace = 30_000  # two seconds to the next piece
        begin = time.monotonic()
        process.send_signal(sent)
        process.wait(10)
        assert time.monotonic() - begin < 1
    hub.pace, hub.served = None, 0
    (model,) = store.list()
    assert (model.status, model.partial) == ("partial", ("Q8_0",))
    assert model.size >= 2_000_000
    kept = arrived(store)
    assert pull(parse("org/large"), store).status == "ready"
    assert store.verify(parse("org/large")) == ()
    # besides the rest, only the header is read again (and a last piece may still have been sent)
    assert hub.served <= len(data) - kept + 500_000


def test_two_processes_pull_once(hub: HubServer, store: Store) -> None:
    data = large(hub)
    hub.pace = 8_000_000
    with child(store, "org/large") as one, child(store, "org/large") as two:
        answers = [process.communicate(timeout=60) for process in (one, two)]
    assert answers == [("('Q8_0',)\n", "")] * 2
    assert store.verify(parse("org/large")) == ()
    assert hub.served < len(data) * 1.2
