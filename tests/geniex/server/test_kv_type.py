"""`kv_type` of requests: contexts of its own, told, and refused before anything loads."""

from dataclasses import replace
from typing import Any

import pytest

from geniex import session
from geniex.server import pool
from geniex.server.footprint import Budget
from geniex_runtimes.fake import FakeRuntime
from tests.geniex.server.conftest import MODEL, Serve

CHAT = "/v1/chat/completions"
HI = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}


def test_it_is_a_part_of_what_is_loaded(serve: Serve) -> None:
    runtime = FakeRuntime(name="llama_cpp")
    client = serve(runtime).client
    kinds = [None, "q8_0", "f16", "q8_0", None]
    told = [client.post(CHAT, json=HI | {"kv_type": kind}).json()["geniex"] for kind in kinds]
    assert [one["kv_type"] for one in told] == ["f16", "q8_0", "f16", "q8_0", "f16"]
    assert [options.kv_type for options in runtime.loads] == ["f16", "q8_0"]
    listed = client.get("/v1/ps").json()["data"]
    assert sorted(one["kv_type"] for one in listed) == ["f16", "q8_0"]
    sizes = {one["kv_type"]: one["bytes"] - one["shared_bytes"] for one in listed}
    assert sizes["q8_0"] < sizes["f16"]


def test_the_server_has_one_for_requests_that_say_nothing(serve: Serve) -> None:
    runtime = FakeRuntime(name="llama_cpp")
    client = serve(runtime, settings={"kv_type": "q4_0", "mlock": True}).client
    loaded = client.post(f"/v1/models/{MODEL}/load", json={}).json()
    assert loaded["kv_type"] == "q4_0"
    assert client.post(CHAT, json=HI | {"kv_type": "f16"}).json()["geniex"]["kv_type"] == "f16"
    assert [(o.kv_type, o.mlock) for o in runtime.loads] == [("q4_0", True), ("f16", True)]


@pytest.mark.parametrize("route", [CHAT, "/v1/completions", "/v1/responses"])
@pytest.mark.parametrize("kind", ["q9_9", "", 8])
def test_a_type_that_does_not_exist(serve: Serve, route: str, kind: object) -> None:
    body: dict[str, Any] = {"model": MODEL, "kv_type": kind}
    body |= {"messages": HI["messages"]} if route == CHAT else {"prompt": "x", "input": "x"}
    answer = serve().client.post(route, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "kv_type", "invalid_value")


def test_what_cannot_be_is_blamed_on_the_field(serve: Serve) -> None:
    runtime = FakeRuntime(name="llama_cpp")
    client = serve(runtime, settings={"flash_attn": "off"}).client
    answer = client.post(CHAT, json=HI | {"kv_type": "q8_0"})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "kv_type")
    assert "needs flash attention" in error["message"] and not runtime.loads
    assert client.post(CHAT, json=HI).status_code == 200
    assert runtime.loads[-1].flash_attention == "off"


@pytest.mark.parametrize(
    ("asked", "memory", "expected"),
    [
        pytest.param(None, 64 << 20, None, id="small-ones-are-left-open"),
        pytest.param(None, 16 << 20, True, id="large-ones-are-mapped"),
        pytest.param(False, 16 << 20, False, id="never"),
        pytest.param(True, 64 << 20, True, id="always"),
    ],
)
def test_weights_that_are_mapped(
    serve: Serve,
    asked: bool | None,
    memory: int,
    expected: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The built-in model has 3.4 MB of weights."""
    seen = session.look_at_hardware
    monkeypatch.setattr(
        pool, "look_at_hardware", lambda settings: replace(seen(settings), memory_total=memory)
    )
    monkeypatch.setattr(Budget, "bytes", lambda *_: 1 << 40)
    runtime = FakeRuntime(name="llama_cpp")
    client = serve(runtime, settings={"mmap": asked}).client
    assert client.post(CHAT, json=HI | {"nctx": 64}).status_code == 200
    assert [options.mmap for options in runtime.loads] == [expected]
