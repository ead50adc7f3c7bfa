"""`/tokenize` and `/detokenize`."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from geniex.config import Settings
from geniex.server.app import build_app
from geniex.server.pool import Pool, PoolOptions
from geniex.server.state import ServerState
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store
from geniex_runtimes.fake import BOS, EOS
from tests.geniex.server.conftest import MODEL
from tests.geniex.server.door import options_of
from tests.geniex.server.live import LiveServer
from tests.toys import bert

HI = [104, 105]


def tokens(client: TestClient, path: str = "/tokenize", **body: Any) -> Any:
    response = client.post(path, json={"model": MODEL, **body})
    assert response.status_code == 200, response.text
    return response.json()["tokens"]


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"content": "hi"}, HI, id="text alone"),
        pytest.param({"content": "hi", "add_special": True}, [BOS, *HI], id="with the first"),
        pytest.param({"content": "hi</s>"}, [*HI, EOS], id="special"),
        pytest.param(
            {"content": "a</s>", "parse_special": False}, [97, *b"</s>"], id="special as text"
        ),
        pytest.param({"content": ""}, [], id="empty"),
        pytest.param({"content": "", "add_special": True}, [BOS], id="empty with the first"),
    ],
)
def test_a_text(client: TestClient, path: str, body: dict[str, Any], expected: list[int]) -> None:
    assert tokens(client, path, **body) == expected


def test_pieces(client: TestClient) -> None:
    assert tokens(client, content="h\u00e9", with_pieces=True) == [
        {"id": 104, "piece": "h"},
        {"id": 0xC3, "piece": [0xC3]},
        {"id": 0xA9, "piece": [0xA9]},
    ]


@pytest.mark.parametrize("path", ["/detokenize", "/v1/detokenize"])
@pytest.mark.parametrize(("given", "text"), [(HI, "hi"), ([], ""), ([*HI, EOS], "hi</s>")])
def test_back_to_text(client: TestClient, path: str, given: list[int], text: str) -> None:
    response = client.post(path, json={"model": MODEL, "tokens": given})
    assert response.json() == {"content": text}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": ["x"]}, "content"),
        ("/tokenize", {"content": "x", "add_special": "yes"}, "add_special"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1, "2"]}, "tokens[1]"),
        ("/detokenize", {"tokens": [1 << 40]}, "tokens[0]"),
        ("/detokenize", {"tokens": [100_000]}, None),
    ],
)
def test_what_cannot_be(
    client: TestClient, path: str, body: dict[str, Any], param: str | None
) -> None:
    response = client.post(path, json={"model": MODEL, **body})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_the_default_model_and_null(client: TestClient) -> None:
    assert client.post("/tokenize", json={"content": "hi"}).json() == {"tokens": HI}
    body = {"content": "hi", "model": None, "nctx": None}
    assert client.post("/tokenize", json=body).json() == {"tokens": HI}


def test_no_such_model(client: TestClient) -> None:
    response = client.post("/tokenize", json={"content": "hi", "model": "none/none"})
    assert response.status_code == 404


@pytest.mark.parametrize("text", ["Hello, world!", " \n\t", "na\u00efve \U0001f600", "<bos>x"])
def test_there_and_back_with_a_real_model(live_server: LiveServer, text: str) -> None:
    with httpx2.Client(base_url=live_server.url, timeout=60) as client:
        body = {"model": MODEL, "content": text, "with_pieces": True}
        pieces = client.post("/tokenize", json=body).json()["tokens"]
        given = {"model": MODEL, "tokens": [piece["id"] for piece in pieces]}
        assert client.post("/detokenize", json=given).json()["content"] == text
        parts = (p["piece"] for p in pieces)
        assert b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in parts) == (
            text.encode()
        )


def test_what_stands_around_a_text_of_an_embedding_model(tmp_path: Path) -> None:
    bert.write_bert(tmp_path / "bert.gguf", bert.Bert())
    settings = Settings(data_dir=tmp_path / "data")
    import_path(parse("local/bert"), tmp_path / "bert.gguf", Store(settings.data_dir))
    state = ServerState(settings, options_of(), Pool(settings, PoolOptions()))
    with TestClient(build_app(state)) as client:
        asked = {"model": "local/bert", "content": "the cat"}

        def found(**more: object) -> list[int]:
            response = client.post("/tokenize", json={**asked, **more})
            assert response.status_code == 200, response.text
            return list(response.json()["tokens"])

        assert found(add_special=True) == [bert.CLS, 4, 5, bert.SEP]
        assert found() == [4, 5]
        assert found(content="") == []
