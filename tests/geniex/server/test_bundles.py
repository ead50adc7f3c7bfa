"""A bundle behind the routes: what was ignored is in the response, the device by its name."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from geniex.config import Settings
from geniex.server.app import build_app
from geniex.server.pool import Pool, PoolOptions
from geniex.server.state import ServerState
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store
from geniex_runtimes.options import SIMULATOR
from tests.geniex.scripted_bundle import CONTEXT, install_qairt, write_bundle
from tests.geniex.server.door import GREETING, HELLO, options_of

MODEL = "local/tiny"
NO_SPECULATION = "speculative decoding is only supported by llama_cpp; ignoring for runtime qairt"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        install_qairt(patch)
        import_path(parse(MODEL), write_bundle(folder / "bundle"), Store(folder / "data"))
        settings = Settings(folder / "data")
        state = ServerState(settings, options_of(), Pool(settings, PoolOptions()))
        with TestClient(build_app(state)) as client:
            yield client


def chat(client: TestClient, status: int = 200, **fields: Any) -> Any:
    body = {"model": MODEL, "messages": GREETING, **fields}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == status, response.text
    return response.json()


def test_an_answer_says_what_it_ran_on(client: TestClient) -> None:
    answer = chat(client)
    assert answer["choices"][0]["message"]["content"] == HELLO
    told = answer["geniex"]
    assert (told["runtime"], told["compute"], told["devices"]) == ("qairt", "npu", [SIMULATOR])
    assert (told["warnings"], told["speculation"]) == ([], None)


@pytest.mark.parametrize("spec_type", ["draft-mtp", "auto", "ngram-simple"])
def test_speculation_is_ignored_and_said_so(client: TestClient, spec_type: str) -> None:
    draft: dict[str, Any] = (
        {} if spec_type == "ngram-simple" else {"spec_draft_model": "org/nowhere"}
    )
    told = chat(client, spec_type=spec_type, **draft)["geniex"]
    assert told["warnings"] == [NO_SPECULATION]
    assert (told["speculation"]["state"], told["speculation"]["reason"]) == ("off", NO_SPECULATION)
    assert chat(client)["geniex"]["warnings"] == []
    error = chat(client, 400, spec_type=spec_type, require_spec=True, **draft)["error"]
    assert (error["param"], error["code"]) == ("require_spec", "unsupported_parameter")
    assert error["message"].startswith("speculative decoding is only supported by llama_cpp, not")


def test_unit_context_and_layers_are_ignored_and_said_so(client: TestClient) -> None:
    told = chat(client, compute="cpu", nctx=4096, ngl=0)["geniex"]
    assert [text.split("ignor")[0] for text in told["warnings"]] == [
        "qairt plugin only supports NPU inference; ",
        "`--nctx 4096` is ",
        "`--ngl 0` is ",
    ]
    assert (told["compute"], told["context_length"]) == ("npu", CONTEXT)


def test_a_full_context_is_no_matter_of_a_field(client: TestClient) -> None:
    long = [{"role": "user", "content": "x" * 2 * CONTEXT}]
    error = chat(client, 400, messages=long)["error"]
    assert (error["param"], error["code"]) == ("messages", "context_length_exceeded")
    assert error["message"].endswith("the context of a bundle is fixed.")
    assert f"is {CONTEXT} tokens" in error["message"] and "nctx" not in error["message"]


def test_an_image_is_left_out_and_said_so(client: TestClient) -> None:
    content = [{"type": "text", "text": "Hi"}, IMAGE]
    [warning] = chat(client, messages=[{"role": "user", "content": content}])["geniex"]["warnings"]
    assert "image" in warning


@pytest.mark.parametrize(("unit", "says"), [("npu", "simulator"), ("gpu", "the NPU alone")])
def test_a_unit_that_is_required_is_refused(client: TestClient, unit: str, says: str) -> None:
    error = chat(client, 400, require=unit)["error"]
    assert says in error["message"] and error["param"] == "require"


def test_vectors_are_refused(client: TestClient) -> None:
    response = client.post("/v1/embeddings", json={"model": MODEL, "input": "Hi"})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "model")
    assert "gives no vectors" in error["message"]


def test_models_say_what_they_run_on(client: TestClient) -> None:
    listed = client.get("/v1/models").json()["data"]
    named = {model["id"]: model.get("device") for model in listed}
    mine = next(name for name in named if name.startswith(MODEL))
    assert {name for name, device in named.items() if device is not None} == {mine}
    assert client.get(f"/v1/models/{MODEL}").json()["device"] == SIMULATOR
    chat(client)
    [resident] = client.get("/v1/ps").json()["data"]
    assert (resident["devices"], resident["slots"]) == ([SIMULATOR], 1)
    loaded = client.post(f"/v1/models/{MODEL}/load", json={"nctx": 4096}).json()
    assert (loaded["devices"], len(loaded["warnings"])) == ([SIMULATOR], 1)
