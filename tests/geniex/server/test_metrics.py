"""What is counted, read back by the parser of Prometheus."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from geniex import __version__
from geniex.server import metrics as metrics_module
from geniex.server.metrics import OTHERS, Metrics
from geniex.session import OpenModel
from geniex_catalogue.errors import LoadError
from geniex_runtimes.contract import Profile
from tests.geniex.server.conftest import MODEL, Serve
from tests.geniex.server.door import wait_for


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(client: TestClient, name: str, **labels: str) -> float | None:
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return samples(response.text).get((name, tuple(sorted(labels.items()))))


def test_requests_by_route_and_status(client: TestClient) -> None:
    for path in ("/health", "/health", "/v1/models/none/none", "/v1/models/no/body", "/nope"):
        client.get(path)

    def count(**labels: str) -> Any:
        return value(client, "geniex_requests_total", **{"method": "GET", **labels})

    assert count(route="/health", status="200") == 2
    # the address as it was typed would be a series for each model that is not here
    assert count(route="/v1/models/{model:path}", status="404") == 2
    assert count(route="unknown", status="404") == 1
    assert value(client, "geniex_request_seconds_count", route="/health") == 2


def test_words_for_methods_are_few(client: TestClient) -> None:
    for method in ("BREW", "WHEN"):
        client.request(method, "/health")
    counted = value(client, "geniex_requests_total", route="/health", method="other", status="405")
    assert counted == 2


def test_what_generations_took() -> None:
    metrics = Metrics()
    profile = Profile(
        ttft=0.2,
        prompt_time=0.15,
        decode_time=2.0,
        prompt_tokens=30,
        cached_tokens=20,
        generated_tokens=41,
        draft_proposed=12,
        draft_accepted=9,
    )
    for _ in range(2):
        metrics.answered(MODEL, profile)
    metrics.answered(MODEL, Profile(prompt_tokens=5))
    found = samples(metrics.text().decode())
    label = (("model", MODEL),)
    assert found["geniex_prompt_tokens_total", label] == 65
    assert found["geniex_cached_tokens_total", label] == 40
    assert found["geniex_generated_tokens_total", label] == 82
    assert found["geniex_draft_tokens_proposed_total", label] == 24
    assert found["geniex_draft_tokens_accepted_total", label] == 18
    # what generated nothing has no first token, and no speed
    assert found["geniex_ttft_seconds_count", label] == 2
    assert found["geniex_decode_tokens_per_second_sum", label] == 40
    # of its ttft, 0.05 s were no prefill
    assert found["geniex_queue_seconds_sum", label] == pytest.approx(0.1)
    assert found["geniex_queue_seconds_bucket", (("le", "0.1"), *label)] == 2


def test_very_many_models_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "_MOST_MODELS", 2)
    metrics = Metrics()
    for name in ("a/a", "b/b", "c/c", "d/d", "a/a"):
        metrics.answered(name, Profile(prompt_tokens=1))
    found = samples(metrics.text().decode())
    counted = {
        labels[0][1]: value
        for (name, labels), value in found.items()
        if name == "geniex_prompt_tokens_total"
    }
    assert counted == {"a/a": 2, "b/b": 1, OTHERS: 2}


def test_names_that_requests_make_up_are_no_labels(client: TestClient) -> None:
    for index in range(3):
        body = {"model": f"made/up-{index}", "messages": [{"role": "user", "content": "hi"}]}
        assert client.post("/v1/chat/completions", json=body).status_code == 404
        assert client.post(f"/v1/models/made/up-{index}/load").status_code == 404
    assert "made" not in client.get("/metrics").text


def test_loads_and_evictions(serve: Serve) -> None:
    client = serve().client
    client.post(f"/v1/models/{MODEL}/load")
    assert value(client, "geniex_model_loads_total", model=MODEL, result="loaded") == 1
    assert value(client, "geniex_load_seconds_count", model=MODEL) == 1
    assert value(client, "geniex_model_evictions_total", model=MODEL, reason="unload") is None
    client.post(f"/v1/models/{MODEL}/unload")
    wait_for(
        lambda: value(client, "geniex_model_evictions_total", model=MODEL, reason="unload") == 1
    )


def test_a_load_that_fails(serve: Serve) -> None:
    def broken(*_: object, **__: object) -> OpenModel:
        raise LoadError("no")

    client = serve(opener=broken).client
    assert client.post(f"/v1/models/{MODEL}/load").status_code == 500
    assert value(client, "geniex_model_loads_total", model=MODEL, result="failed") == 1
    assert value(client, "geniex_load_seconds_count", model=MODEL) is None


def test_the_process_and_what_runs(serve: Serve) -> None:
    client = serve().client
    assert (value(client, "geniex_resident_bytes") or 0) > 1 << 20
    assert (value(client, "geniex_workers") or 0) >= 0
    assert value(client, "geniex_draining") == 0
    # the scrape itself is not counted: who only watches is let in to the end
    assert value(client, "geniex_requests_active") == 0
    families = text_string_to_metric_families(client.get("/metrics").text)
    (info,) = next(one for one in families if one.name == "geniex_build_info").samples
    assert info.value == 1 and info.labels["version"] == __version__
    assert info.labels["llama_cpp_python"]


def test_every_family_is_said_once_and_has_a_help(client: TestClient) -> None:
    families = list(text_string_to_metric_families(client.get("/metrics").text))
    names = [one.name for one in families]
    assert len(names) == len(set(names))
    assert all(one.documentation for one in families)


def test_slots_and_queues(serve: Serve) -> None:
    client = serve(pool={"slots": 3}).client
    assert value(client, "geniex_slots", model=MODEL) is None
    client.post(f"/v1/models/{MODEL}/load")
    assert value(client, "geniex_slots", model=MODEL) == 3
    assert value(client, "geniex_slots_busy", model=MODEL) == 0
    assert value(client, "geniex_requests_waiting", model=MODEL) == 0
    assert (value(client, "geniex_model_bytes", model=MODEL) or 0) > 0


def test_contexts_of_one_model_are_one_series(serve: Serve) -> None:
    client = serve(pool={"slots": 2}).client
    for length in (512, 1024):
        client.post(f"/v1/models/{MODEL}/load", json={"nctx": length})
    assert value(client, "geniex_slots", model=MODEL) == 4


def test_weights_that_contexts_share_count_once(serve: Serve) -> None:
    served = serve(pool={"slots": 1})
    for length in (512, 1024):
        served.client.post(f"/v1/models/{MODEL}/load", json={"nctx": length})
    first, second = served.state.pool.residents()
    whole = first.bytes + second.bytes - first.shared_bytes
    assert value(served.client, "geniex_model_bytes", model=MODEL) == whole


def test_what_answers_say_of_themselves_is_what_is_counted(client: TestClient) -> None:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    asked = [
        ("/v1/chat/completions", chat),
        ("/v1/chat/completions", {**chat, "n": 2}),
        ("/v1/completions", {"model": MODEL, "prompt": "Once upon a time"}),
        ("/v1/embeddings", {"model": MODEL, "input": ["one", "two"]}),
    ]
    usages = [client.post(path, json=body).json()["usage"] for path, body in asked]
    answered, embedded = usages[:3], usages[3]
    assert value(client, "geniex_generated_tokens_total", model=MODEL) == sum(
        usage["completion_tokens"] for usage in answered
    )
    # the prompt of two choices is evaluated once, and found in the slot by the other
    prompts = sum(usage["prompt_tokens"] for usage in answered) + answered[1]["prompt_tokens"]
    assert value(client, "geniex_prompt_tokens_total", model=MODEL) == (
        prompts + embedded["prompt_tokens"]
    )
    for name in ("ttft", "queue"):
        assert value(client, f"geniex_{name}_seconds_count", model=MODEL) == 4
    route = {"route": "/v1/chat/completions", "method": "POST", "status": "200"}
    assert value(client, "geniex_requests_total", **route) == 2
    # contexts for text and contexts for vectors
    assert value(client, "geniex_model_loads_total", model=MODEL, result="loaded") == 2
