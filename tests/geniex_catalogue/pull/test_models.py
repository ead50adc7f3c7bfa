"""Pulled models: the right files, whole, under the right label, and once."""

import hashlib
from typing import NamedTuple

import pytest

from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, execute, plan_pull, pull
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf, shards
from tests.hubserver import COMMIT, HubServer


def test_pull_takes_the_best_precision_and_says_what_it_is(repo: HubServer, store: Store) -> None:
    model = pull(parse("org/repo"), store)
    data = repo.repos["org/repo"].files["m-Q4_0.gguf"]
    assert (model.status, model.precisions) == ("ready", ("Q4_0",))
    (record,) = model.records("Q4_0")
    assert model.path(record).read_bytes() == data
    assert record.sha256 == hashlib.sha256(data).hexdigest()
    assert (record.size, record.revision, record.source) == (len(data), COMMIT, "huggingface")
    left = {path.name for path in model.folder.iterdir()}
    assert left - {".lock"} == {"geniex.json", "m-Q4_0.gguf", ".ledgers"}
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
    assert pull(parse("org/repo"), store, PullWish(revision="main")) == first
    repo.repos["org/repo"].files["m-Q4_0.gguf"] = newer = gguf(4000)
    model = pull(parse("org/repo"), store, PullWish(revision="main"))
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


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("ab:c-Q8_0.gguf", "ab_c-Q8_0.gguf"),
        ("a b %41-Q8_0.gguf", "a b _41-Q8_0.gguf"),
        ("Q8_0/m?.gguf", "Q8_0/m_.gguf"),
    ],
)
def test_odd_names_of_files_are_stored_as_safe_ones(
    hub: HubServer, store: Store, name: str, stored: str
) -> None:
    hub.add("org/x", {name: gguf()})
    model = pull(parse("org/x"), store)
    assert (model.status, model.precisions) == ("ready", ("Q8_0",))
    assert [record.name for record in model.records("Q8_0")] == [stored]
    assert plan_pull(parse("org/x"), store, PullWish(revision="main")).present is not None
    assert isinstance(resolve("org/x:Q8_0", store), ResolvedModel)
