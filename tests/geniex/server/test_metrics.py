"""What is counted, read back by the parser of Prometheus."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from geniex.server.metrics import Metrics
from geniex_runtimes.contract import Profile
from tests.geniex.server.conftest import MODEL, Serve


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
        prompt_time=0.2,
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


def test_an_answer_is_counted(client: TestClient) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    assert client.post("/v1/chat/completions", json=body).status_code == 200
    assert (value(client, "geniex_generated_tokens_total", model=MODEL) or 0) > 0
    assert value(client, "geniex_ttft_seconds_count", model=MODEL) == 1
