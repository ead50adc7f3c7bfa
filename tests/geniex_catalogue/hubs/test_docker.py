"""Docker Hub: which layers are taken, every digest checked, and the template that came along."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import (
    ChecksumError,
    GenieXError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    UsageError,
)
from geniex_catalogue.hubs.docker import Access, DockerHub
from geniex_catalogue.hubs.docker_manifest import choose_entry, label_of, read_layers
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, plan_pull, pull
from geniex_catalogue.resolver import PullNeeded, ResolvedModel, resolve
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from tests.dockerhub import AI, GGUF, INDEX, TEMPLATE, Registry, running
from tests.ggufwriter import small
from tests.hubserver import HubServer

REPO = "ai/smollm2"
NAME = f"docker.io/{REPO}"
JINJA = b"{{ messages }}"
MODEL, OTHER = small(), small() + bytes(64)


@pytest.fixture
def registry(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry with one model under two tags, that GENIEX_DOCKERBASEURL points to."""
    with running(hub) as made:
        licence = made.layer(f"{AI}license", b"Apache")
        template = made.layer(TEMPLATE, JINJA)
        made.model(REPO, "latest", made.layer(GGUF, MODEL), licence, template)
        made.model(REPO, "360M-q4_0", made.layer(GGUF, OTHER), template, quantization="Q4_0")
        monkeypatch.setenv("GENIEX_DOCKERBASEURL", made.url)
        yield made


def pulled(store: Store, name: str = NAME, **wish: Any) -> StoredModel:
    return pull(parse(name), store, PullWish(**wish))


def found(store: Store, name: str) -> ResolvedModel:
    model = resolve(name, store)
    assert isinstance(model, ResolvedModel)
    return model


def test_a_model(registry: Registry, hub: HubServer, store: Store) -> None:
    assert isinstance(resolve(NAME, store), PullNeeded)
    model = pulled(store)
    assert (model.name, model.format, model.precisions) == (REPO, "gguf", ("Q4_K_M",))
    for name in (NAME, f"{NAME}:latest", f"https://hub.docker.com/r/{REPO}", REPO):
        ours = found(store, name)
        assert ours.path.read_bytes() == MODEL
        assert ours.files == (ours.path,)
        assert ours.chat_template == JINJA.decode()
    assert store.verify(model.ref) == ()
    asked = len(registry.seen)
    assert pulled(store) == model
    assert len(registry.seen) == asked
    # the token is for the registry, not for where it sends us
    assert not any("authorization" in seen.headers for seen in hub.requests("cdn"))


def test_tags_are_precisions(registry: Registry, store: Store) -> None:
    pulled(store)
    model = pulled(store, f"{NAME}:360M-q4_0")
    assert set(model.precisions) == {"360M-Q4_0", "Q4_K_M"}
    assert ("/v2/ai/smollm2/manifests/360M-q4_0") in [path for path, _ in registry.seen]
    assert found(store, f"{NAME}:360M-q4_0").path.read_bytes() == OTHER
    assert found(store, f"{REPO}:Q4_K_M").path.read_bytes() == MODEL
    store.remove(parse(f"{REPO}:360M-Q4_0"))
    assert not list((store.models / REPO).glob("360M*/*"))
    assert found(store, REPO).chat_template is not None


def test_a_newer_version_of_a_tag(registry: Registry, store: Store) -> None:
    pulled(store)
    registry.model(REPO, "latest", registry.layer(GGUF, OTHER))
    assert plan_pull(parse(REPO), store).present is not None
    plan = plan_pull(parse(f"{REPO}:Q4_K_M"), store, PullWish(fresh=True))
    assert (plan.hub, len(plan.fetches)) == ("docker", 1)
    model = pulled(store, f"{REPO}:Q4_K_M", fresh=True)
    ours = found(store, REPO)
    assert (ours.path.read_bytes(), ours.chat_template) == (OTHER, None)
    assert model.precisions == ("Q4_K_M",)
    assert plan_pull(parse(REPO), store, PullWish(fresh=True)).present is not None


def test_several_files_and_their_names(registry: Registry, store: Store) -> None:
    layers = [registry.layer(GGUF, MODEL + bytes([n])) for n in range(2)]
    registry.model("ai/two", "latest", *layers, registry.layer(f"{AI}mmproj", b"GGUF"))
    plan = plan_pull(parse("docker.io/ai/two"), store)
    assert [job.name for job in plan.fetches] == [
        "Q4_K_M/model-00001-of-00002.gguf",
        "Q4_K_M/model-00002-of-00002.gguf",
    ]
    named = registry.layer(GGUF, MODEL, "weights/SmolLM2.gguf")
    registry.model("ai/named", "latest", named, quantization=None)
    assert pulled(store, "docker.io/ai/named").precisions == ("DEFAULT",)
    assert found(store, "ai/named").path.name == "SmolLM2.gguf"


def test_an_index_is_followed_for_this_machine(
    registry: Registry, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = []
    for kind, data in (("arm64", MODEL), ("amd64", OTHER)):
        digest = registry.model(REPO, kind, registry.layer(GGUF, data))
        entries.append({"digest": digest, "platform": {"architecture": kind, "os": "linux"}})
    registry.put(REPO, "both", {"manifests": entries}, INDEX)
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    pulled(store, f"{NAME}:both")
    assert found(store, f"{NAME}:both").path.read_bytes() == OTHER
    registry.put(
        REPO, "nested", {"manifests": [{"digest": registry.put(REPO, "x", {}, INDEX)}]}, INDEX
    )
    with pytest.raises(HubError, match="index of indexes"):
        pulled(store, f"{NAME}:nested")


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [
        pytest.param([("arm64", 1), ("amd64", 2)], 2, id="this machine"),
        pytest.param([("", 1), ("amd64", 2)], 2, id="before any"),
        pytest.param([("arm64", 1), ("", 2)], 2, id="for any"),
        pytest.param([("unknown", 1), ("", 2), ("", 3)], 2, id="the first for any"),
        pytest.param([("arm64", 1), ("unknown", 2)], None, id="none"),
        pytest.param([], None, id="empty"),
    ],
)
def test_choose_entry(entries: list[tuple[str, int]], chosen: int | None) -> None:
    listed = [
        {"digest": f"sha256:{number:064}"} | ({"platform": {"architecture": kind}} if kind else {})
        for kind, number in entries
    ]
    if chosen is None:
        with pytest.raises(HubError, match="no model for amd64"):
            choose_entry({"manifests": listed}, "x86_64", parse(NAME))
    else:
        assert choose_entry({"manifests": listed}, "x86_64", parse(NAME)) == f"sha256:{chosen:064}"


@pytest.mark.parametrize(
    ("stated", "label"),
    [
        ("Q4_K_M", "Q4_K_M"),
        ("q8_0", "Q8_0"),
        ("MOSTLY_Q4_0", "Q4_0"),
        ("IQ2_XXS/Q4_K_M", "Q4_K_M"),
        ("F16", "F16"),
        ("odd one", "ODD_ONE"),
        ("", "DEFAULT"),
        (None, "DEFAULT"),
        (7, "DEFAULT"),
        ("///", "DEFAULT"),
    ],
)
def test_label_of(stated: object, label: str) -> None:
    assert label_of({"config": {"quantization": stated}}) == label


def test_wrong_bytes_are_refused(registry: Registry, store: Store) -> None:
    digest = registry.blob(MODEL)
    registry.blobs[digest] = MODEL[:-1] + b"?"
    with pytest.raises(ChecksumError, match="sha256"):
        pulled(store)
    assert all(model.status != "ready" for model in store.list())
    registry.blobs[digest] = MODEL
    assert pulled(store).status == "ready"


def test_a_manifest_that_was_tampered_with(registry: Registry, store: Store) -> None:
    registry.headers = {"docker-content-digest": f"sha256:{0:064}"}
    with pytest.raises(ChecksumError, match="manifest has the digest"):
        pulled(store)


def layers_of(kind: str) -> list[dict[str, Any]]:
    return [{"mediaType": kind, "digest": f"sha256:{1:064}", "size": 1}]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        pytest.param({"layers": []}, "has no GGUF on Docker Hub: it holds nothing", id="empty"),
        pytest.param({"layers": layers_of(f"{AI}license")}, "it holds license", id="no weights"),
        pytest.param(
            {"layers": layers_of(f"{AI}safetensors")}, "made of safetensors", id="safetensors"
        ),
        pytest.param({"layers": layers_of(f"{AI}dduf")}, "made of dduf", id="dduf"),
        pytest.param({"layers": [{"digest": "md5:1"}]}, "without a digest", id="no digest"),
        pytest.param({"layers": "x"}, "it holds nothing", id="no list"),
    ],
)
def test_manifests_without_a_model(
    registry: Registry, store: Store, document: dict[str, Any], says: str
) -> None:
    registry.put(REPO, "odd", document)
    with pytest.raises(HubError, match=says):
        pulled(store, f"{NAME}:odd")
    assert not store.models.exists()


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        (f"{NAME}:none", HubNotFoundError, "not found"),
        ("docker.io/ai/nosuch", HubNotFoundError, "or private"),
        (f"{REPO}", GenieXError, "ai/smollm2"),
    ],
)
def test_what_is_not_there(
    registry: Registry, store: Store, name: str, error: type[GenieXError], says: str
) -> None:
    with pytest.raises(error, match=says):
        pulled(store, name)


def test_a_name_that_leads_out(registry: Registry, store: Store) -> None:
    registry.model(REPO, "bad", registry.layer(GGUF, MODEL, "../../..gguf"))
    pulled(store, f"{NAME}:bad")
    placed = found(store, f"{NAME}:bad").path
    assert placed.parent == store.models / REPO / "BAD"


def test_a_token_that_ends_is_renewed(registry: Registry) -> None:
    now = [0.0]
    access = Access(registry.url, REPO, None, clock=lambda: now[0])
    assert dict(access) == {}
    url = f"{registry.url}/v2/{REPO}/manifests/latest"
    access.read(url, "it", {})
    first = {**access}
    assert {**access} == first
    now[0] = 290.0
    assert {**access} != first
    assert registry.tokens == 2


def test_registries_that_make_no_sense(
    registry: Registry, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.url = "nowhere"
    with pytest.raises(HubAuthError, match="how `ai/smollm2` may be read"):
        pulled(store)
    monkeypatch.setenv("GENIEX_DOCKERBASEURL", "nowhere")
    with pytest.raises(UsageError, match="no address"):
        DockerHub()


def test_a_template_that_is_gone_is_said(registry: Registry, store: Store) -> None:
    model = pulled(store)
    (model.folder / "Q4_K_M" / "chat_template.jinja").unlink()
    with pytest.raises(GenieXError, match=r"chat_template\.jinja"):
        resolve(NAME, store)


def test_a_whole_pull_is_small(registry: Registry, store: Store, tmp_path: Path) -> None:
    plan = plan_pull(parse(NAME), store)
    assert plan.total == len(MODEL) + len(JINJA)
    assert str(plan.ref) == f"{NAME}:Q4_K_M"


KEYS = (
    *("layers", "digest", "size", "annotations", "platform", "config", "quantization"),
    *("mediaType", "architecture", "manifests", "org.cncf.model.filepath"),
)
JSON = st.recursive(
    st.none() | st.text(max_size=8) | st.integers() | st.just(f"sha256:{1:064}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_read_or_refused(value: Any) -> None:
    ref = parse(NAME)
    for read in (
        lambda: read_layers({"layers": value}),
        lambda: choose_entry({"manifests": value}, "arm64", ref),
    ):
        try:
            read()
        except HubError:
            continue
    label = label_of({"config": value})
    assert ref.with_precision(label).precision == label
