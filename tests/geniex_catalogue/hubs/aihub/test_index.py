"""The documents of a release: read as they are, refused as what they are not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import GenieXError, HubError, HubNotFoundError, LicenceError
from geniex_catalogue.hubs.aihub_choice import find_model, for_chipset, listed, typed_name
from geniex_catalogue.hubs.aihub_index import Index, read_assets, read_index, read_platform
from geniex_catalogue.names import parse
from tests.aihub import GENIE, ONNX, QAIRT, X2_ELITE, X_ELITE, asset, manifest, model, platform

URL = "https://example.com/assets.json"
VISION = {"domain": "MODEL_DOMAIN_COMPUTER_VISION"}
INDEX = read_index(
    manifest(
        [
            model("Qwen3-4B", url=URL),
            model("Llama-v3.2-3B-Instruct", supported_runtimes=[GENIE]),
            model("Stable Diffusion v2.1", url=URL, supported_runtimes=[ONNX]),
            model("Qwen2.5-VL-7B-Instruct", url=URL, tags=["MODEL_TAG_VLM"]),
            model("MobileNet V2", url=URL, **VISION),
            model("Falcon3-7B", url=URL, supported_chipsets=[X2_ELITE], supported_runtimes=[QAIRT]),
            model("Odd Name", url=URL, supported_chipsets=[]),
        ]
    )
)
PLATFORM = read_platform(platform())


@pytest.mark.parametrize("name", ["Qwen3-4B", "qwen3_4b"])
def test_a_model_by_name_and_id(name: str) -> None:
    assert find_model(INDEX, parse(f"ai-hub-models/{name}:W4A16")).id == "qwen3_4b"


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        pytest.param("qwen3-4b", HubNotFoundError, "`ai-hub-models/Qwen3-4B`", id="other case"),
        pytest.param("Qwen3-4", HubNotFoundError, "`ai-hub-models/Qwen3-4B`", id="too short"),
        pytest.param("zzz", HubNotFoundError, "hub list --all", id="nothing like it"),
        pytest.param("mobilenet_v2", HubError, "not as a bundle", id="vision"),
        pytest.param("stable_diffusion_v2_1", HubError, "not as a bundle", id="no runtime of ours"),
        pytest.param("Llama-v3.2-3B-Instruct", LicenceError, "geniex hub export", id="licence"),
        pytest.param("Qwen3-4B:x.gguf", GenieXError, "compiled bundles", id="file"),
    ],
)
def test_a_model_that_is_not_to_be_had(name: str, error: type[GenieXError], says: str) -> None:
    with pytest.raises(error) as caught:
        find_model(INDEX, parse(f"ai-hub-models/{name}"))
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_lists() -> None:
    names = [found.name for found in listed(INDEX)]
    own = ["Llama-v3.2-3B-Instruct", "Odd Name", "Qwen2.5-VL-7B-Instruct", "Qwen3-4B"]
    assert names == ["Falcon3-7B", *own]
    x_plus = PLATFORM.host("qualcomm-snapdragon-x-plus-8-core", 73)
    assert x_plus is not None
    assert [found.name for found in for_chipset(INDEX, PLATFORM, x_plus)] == [own[0], *own[2:]]
    assert [found.type for found in listed(INDEX)].count("vlm") == 1


def test_what_to_type() -> None:
    typed = [typed_name(found) for found in listed(INDEX)]
    assert "ai-hub-models/odd_name" in typed
    assert "ai-hub-models/Qwen3-4B" in typed


def test_numbers_as_text_and_fields_left_out() -> None:
    data = {"chipsets": [{"name": "a", "htp_version": "73"}, {"name": "b"}, {"aliases": None}]}
    found = read_platform(json.dumps(data).encode())
    assert [(chipset.name, chipset.htp_arch) for chipset in found.chipsets] == [
        ("a", 73),
        ("b", None),
    ]
    assert read_index(b"{}") == Index("", ())
    entry = asset(X_ELITE) | {"download_url": None}
    assert read_assets(json.dumps({"assets": [entry]}).encode()) == ()


NO_INDEX = [
    b"",
    b"<html>",
    b"[]",
    b'{"models": {"a": 1}}',
    b'{"models": [1]}',
    b'{"models": [{"id": 1}]}',
    b'{"models": [{"id": "a", "manifest_urls": [1]}]}',
    b'{"models": [{"id": "a", "tags": 1}]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("data", NO_INDEX, ids=range(len(NO_INDEX)))
def test_what_is_no_index(data: bytes) -> None:
    with pytest.raises(HubError, match=r"manifest\.json cannot be used"):
        read_index(data)


def objects(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    keys = ["id", "name", "aliases", "manifest_urls", "chipset", "precision", "download_url"]
    return st.lists(inner) | st.dictionaries(st.sampled_from(keys), inner)


@given(st.recursive(st.none() | st.text() | st.integers(), objects, max_leaves=12))
def test_any_json_is_read_or_refused(value: object) -> None:
    data = json.dumps({"models": value, "chipsets": value, "assets": value}).encode()
    for read in (read_index, read_platform, read_assets):
        try:
            read(data)
        except HubError as error:
            assert error.hint
