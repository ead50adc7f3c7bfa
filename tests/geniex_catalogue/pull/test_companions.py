"""What goes beside a model: files by name, drafts, projectors; and which precision is taken."""

from collections.abc import Sequence

import pytest

from geniex_catalogue.errors import HubOfflineError, ModelNotFoundError, UsageError
from geniex_catalogue.hubs.choice import Candidate
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, plan_pull, plan_pulls, pull
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import HubServer

DRAFT = gguf(20, general__architecture="gemma4-assistant")
PROJECTOR = gguf(21, general__architecture="clip", general__type="mmproj")


@pytest.fixture
def family(hub: HubServer) -> HubServer:
    """A model in two precisions, with a draft and a projector beside it."""
    files = {"m-Q4_0.gguf": gguf(9), "m-Q8_0.gguf": gguf(10)}
    files |= {"mtp-m-Q8_0.gguf": DRAFT, "mmproj-F16.gguf": PROJECTOR, "README.md": b"#"}
    hub.add("org/repo", files)
    return hub


def test_a_model_comes_alone_unless_more_is_asked_for(family: HubServer, store: Store) -> None:
    model = pull(parse("org/repo"), store)
    assert model.manifest is not None
    assert [record.name for record in model.manifest.files()] == ["m-Q4_0.gguf"]


def test_the_draft_of_its_repository(family: HubServer, store: Store) -> None:
    wish = PullWish(with_draft=True)
    model = pull(parse("org/repo"), store, wish)
    assert model.extra("mtp-m-Q8_0.gguf") is not None and model.precisions == ("Q4_0",)
    assert isinstance(resolve("org/repo:mtp-m-Q8_0.gguf", store, "draft"), ResolvedModel)
    family.seen.clear()
    assert plan_pull(parse("org/repo"), store, wish).present == model
    assert not family.seen


@pytest.mark.parametrize(
    ("name", "draft"),
    [("big-26b-Q4_0", "mtp-big-26b-Q8_0"), ("big-e2b-Q8_0", "mtp-big-e2b-Q4_0")],
)
def test_of_several_drafts_the_one_of_its_model(
    hub: HubServer, store: Store, name: str, draft: str
) -> None:
    files = {f"{file}.gguf": gguf(9) for file in ("big-26b-Q4_0", "big-e2b-Q8_0")}
    files |= {f"{file}.gguf": DRAFT for file in ("mtp-big-26b-Q8_0", "mtp-big-e2b-Q4_0")}
    hub.add("org/repo", files)
    wish = PullWish(files=(f"{name}.gguf",), with_draft=True)
    plan = plan_pull(parse("org/repo"), store, wish)
    assert [job.name for job in plan.fetches] == [f"{name}.gguf", f"{draft}.gguf"]


def test_a_draft_comes_later_alone(family: HubServer, store: Store) -> None:
    pull(parse("org/repo:Q8_0"), store)
    plan = plan_pull(parse("org/repo:Q8_0"), store, PullWish(with_draft=True))
    assert [job.name for job in plan.fetches] == ["mtp-m-Q8_0.gguf"]
    model = pull(parse("org/repo:Q8_0"), store, PullWish(with_draft=True))
    assert model.precisions == ("Q8_0",) and model.has_draft()


def test_a_draft_that_the_catalogue_knows(hub: HubServer, store: Store) -> None:
    target = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf"
    draft = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf"
    hub.add(target, {"gemma-Q4_0.gguf": gguf(9)})
    hub.add(draft, {"gemma-assistant-Q4_0.gguf": DRAFT})
    plans = plan_pulls(parse(target), store, PullWish(with_draft=True))
    assert [str(plan.ref) for plan in plans] == [f"{target}:Q4_0", f"{draft}:Q4_0"]
    pull(parse(target), store, PullWish(with_draft=True))
    assert [model.name for model in store.list()] == [draft, target]


def test_no_draft_is_known(repo: HubServer, store: Store) -> None:
    with pytest.raises(UsageError, match="no draft of `org/repo:Q4_0`"):
        pull(parse("org/repo"), store, PullWish(with_draft=True))
    assert not store.root.exists()


def test_a_projector_goes_beside_its_model(family: HubServer, store: Store) -> None:
    wish = PullWish(files=("mmproj-F16.gguf",))
    with pytest.raises(UsageError, match="is no model"):
        pull(parse("org/repo"), store, wish)
    model = pull(parse("org/repo:Q4_0"), store, wish)
    assert model.manifest is not None and model.manifest.projector is not None
    assert model.manifest.projector.name == "mmproj-F16.gguf"
    assert (model.status, model.precisions) == ("ready", ("Q4_0",))
    store.remove(parse("org/repo:Q4_0"))
    assert store.find(parse("org/repo")) is None


def test_files_by_name(hub: HubServer, store: Store) -> None:
    hub.add("org/repo", {"mo:del-Q8_0.gguf": gguf(9), "c-Q8_0.gguf": gguf(10)})
    first = pull(parse("org/repo"), store, PullWish(files=("mo:del-Q8_0.gguf",)))
    assert first.precisions == ("mo_del-Q8_0.gguf",)
    assert plan_pull(parse("org/repo:mo_del-Q8_0.gguf"), store, PullWish(revision="main")).present
    both = pull(parse("org/repo"), store, PullWish(files=("c-Q8_0.gguf", "mo:del-Q8_0.gguf")))
    assert set(both.precisions) == {"mo_del-Q8_0.gguf", "c-Q8_0.gguf"}
    with pytest.raises(ModelNotFoundError):
        pull(parse("org/repo"), store, PullWish(files=("none.gguf",)))


def test_whoever_picks_is_asked_once_and_only_where_nothing_is_named(
    family: HubServer, store: Store
) -> None:
    asked: list[Sequence[Candidate]] = []

    def pick(candidates: Sequence[Candidate]) -> str:
        asked.append(candidates)
        return "Q8_0"

    wish = PullWish(pick=pick)
    assert str(plan_pull(parse("org/repo"), store, wish).ref) == "org/repo:Q8_0"
    sizes = {name: len(data) for name, data in family.repos["org/repo"].files.items()}
    expected = [Candidate(f"Q{n}_0", sizes[f"m-Q{n}_0.gguf"]) for n in (4, 8)]
    assert asked == [expected]
    plan_pull(parse("org/repo:Q4_0"), store, wish)
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["GENIEX_OFFLINE", "HF_HUB_OFFLINE", "--offline"])
def test_offline_needs_nobody_for_what_is_here(
    family: HubServer, store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model = pull(parse("org/repo"), store)
    family.seen.clear()
    wish = PullWish(offline=name == "--offline")
    if not wish.offline:
        monkeypatch.setenv(name, "1")
    assert pull(parse("org/repo"), store, wish) == model
    with pytest.raises(HubOfflineError, match=name) as caught:
        pull(parse("org/repo:Q8_0"), store, wish)
    assert name in str(caught.value.hint)
    assert not family.seen
