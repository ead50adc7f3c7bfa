"""Which models are here, what is in memory, and loading by hand."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from geniex.server.models import listing
from geniex_catalogue.errors import LoadError
from geniex_catalogue.gguf import read_header
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store
from geniex_runtimes.fake import FakeRuntime
from tests.geniex.server.conftest import DRAFT, MODEL, Serve, Served
from tests.geniex.server.pools import Loads, eventually
from tests.toys import bert

STORED = ("acme/Big.Model-GGUF:Q8_0", "local/mine_2:Q8_0")


@pytest.fixture
def store(tmp_path: Path, tiny_chat: Path, tiny_chat_draft: Path) -> Store:
    """The served store, with two models and a draft in it."""
    store = Store(tmp_path / "data")
    for name in STORED:
        import_path(parse(name), tiny_chat, store)
    import_path(parse("acme/draft-GGUF"), tiny_chat_draft, store, "in_place")
    return store


def get(client: TestClient, path: str, status: int = 200) -> Any:
    response = client.get(path)
    assert response.status_code == status, response.text
    return response.json()


class TestList:
    def test_all_that_can_answer(self, client: TestClient, store: Store) -> None:
        listed = get(client, "/v1/models")
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == sorted([*STORED, MODEL])
        for model in listed["data"]:
            assert set(model) == {"id", "object", "created", "owned_by"}
            assert model["object"] == "model"
            assert model["created"] > 0
            assert model["owned_by"] == model["id"].partition("/")[0]

    def test_what_another_process_changes_is_seen(self, client: TestClient, store: Store) -> None:
        assert len(get(client, "/v1/models")["data"]) == 3
        store.remove(parse(STORED[0]))
        assert len(get(client, "/v1/models")["data"]) == 2

    def test_headers_are_read_once_for_as_long_as_files_stay(
        self, client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        get(client, "/v1/models")
        read: list[Path] = []

        def watched(path: Path) -> Any:
            read.append(path)
            return read_header(path)

        monkeypatch.setattr(listing, "read_header", watched)
        get(client, "/v1/models")
        assert not read
        file = next(store.folder(parse(STORED[1])).glob("*.gguf"))
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data[:-1] + b"\0")
        assert len(get(client, "/v1/models")["data"]) == 3 and read == [file]

    def test_a_damaged_model_hides_no_other(self, client: TestClient, store: Store) -> None:
        folder = store.folder(parse(STORED[1]))
        (folder / "geniex.json").write_text("{")
        assert [m["id"] for m in get(client, "/v1/models")["data"]] == [STORED[0], MODEL]

    def test_a_path_that_the_operator_named(self, serve: Serve, tiny_chat: Path) -> None:
        client = serve(paths=frozenset({str(tiny_chat)})).client
        listed = get(client, "/v1/models")["data"]
        assert str(tiny_chat) in [model["id"] for model in listed]
        found = get(client, f"/v1/models/{quote(str(tiny_chat), safe='')}")
        assert found in listed


class TestRetrieve:
    @pytest.mark.parametrize(
        "path",
        [
            pytest.param(STORED[0], id="raw"),
            pytest.param(quote(STORED[0], safe=""), id="encoded"),
            pytest.param(quote(STORED[0], safe="/"), id="colon encoded"),
            pytest.param(quote(STORED[0], safe=":"), id="slash encoded"),
            pytest.param("acme/big.model-gguf:q8_0", id="other case"),
            pytest.param("acme/Big.Model-GGUF", id="without precision"),
        ],
    )
    def test_any_spelling(self, client: TestClient, store: Store, path: str) -> None:
        found = get(client, f"/v1/models/{path}")
        assert found["id"] == STORED[0]
        assert found in get(client, "/v1/models")["data"]

    @pytest.mark.parametrize(("name", "id_"), [("tiny", MODEL), (DRAFT, DRAFT)])
    def test_aliases_and_drafts(self, client: TestClient, name: str, id_: str) -> None:
        assert get(client, f"/v1/models/{name}")["id"] == id_

    @pytest.mark.parametrize(
        ("name", "parts"),
        [
            ("acme/big-model-gguf", ["acme/Big.Model-GGUF", "geniex pull"]),
            ("acme/Big.Model-GGUF:Q2_K", ["Q8_0"]),
            ("gpt-4o", ["gpt-4o"]),
            ("a/b/c/d", ["a/b/c/d"]),
            ("%20", []),
            ("%00", []),
            ("..%2F..%2Fetc%2Fpasswd", []),
            ("%2Fetc%2Fpasswd", []),
            ("x" * 5000, []),
        ],
    )
    def test_not_here(self, client: TestClient, store: Store, name: str, parts: list[str]) -> None:
        error = get(client, f"/v1/models/{name}", 404)["error"]
        assert error["code"] == "model_not_found"
        assert error["param"] == "model"
        assert all(part in error["message"] for part in parts), error["message"]


class TestLoad:
    def test_every_name_of_the_list(self, client: TestClient, store: Store) -> None:
        for model in get(client, "/v1/models")["data"]:
            response = client.post(f"/v1/models/{model['id']}/load")
            assert response.status_code == 200, response.text
            assert response.json()["id"] == model["id"]
        assert len(get(client, "/v1/ps")["data"]) == 3

    def test_one_file_under_two_names(
        self, client: TestClient, store: Store, tiny_chat: Path
    ) -> None:
        names = ["acme/again-GGUF:Q8_0", MODEL]
        import_path(parse(names[0]), tiny_chat, store, "in_place")
        for name in names:
            assert client.post(f"/v1/models/{name}/load").json()["id"] == name
        assert len(get(client, "/v1/ps")["data"]) == 1

    def test_as_the_body_says(self, serve: Serve) -> None:
        served = serve()
        body = {"nctx": 512, "spec_type": "draft-mtp", "spec_draft_model": DRAFT, "spec_n_max": 2}
        response = served.client.post(f"/v1/models/{MODEL}/load", json=body)
        loaded = response.json()
        assert response.status_code == 200, loaded
        assert loaded["context_length"] == 512
        assert loaded["speculation"] == ["draft-mtp"]
        assert loaded["object"] == "model.loaded"
        resident = get(served.client, "/v1/ps")["data"][0]
        assert (resident["id"], resident["context_length"]) == (MODEL, 512)
        assert (resident["busy"], resident["waiting"], resident["loading"]) == (0, 0, False)

    def test_how_long_it_stays(self, serve: Serve) -> None:
        client = serve().client
        client.post(f"/v1/models/{MODEL}/load", json={"keep_alive": -1})
        assert get(client, "/v1/ps")["data"][0]["expires_in"] is None
        client.post(f"/v1/models/{MODEL}/load", json={"keep_alive": 1000})
        assert 900 < get(client, "/v1/ps")["data"][0]["expires_in"] <= 1000

    @pytest.mark.parametrize(
        ("name", "body", "status", "param"),
        [
            ("none/none", {}, 404, "model"),
            (DRAFT, {}, 400, "model"),
            (MODEL, {"nctx": "many"}, 400, "nctx"),
            (MODEL, {"compute": "no such unit!"}, 400, "compute"),
            (MODEL, {"spec_type": "draft-mtp", "spec_draft_model": "no/draft"}, 400, None),
            (MODEL, {"spec_type": "nonsense"}, 400, "spec_type"),
        ],
    )
    def test_what_cannot_be(
        self, client: TestClient, name: str, body: dict[str, Any], status: int, param: str | None
    ) -> None:
        response = client.post(f"/v1/models/{name}/load", json=body)
        assert response.status_code == status, response.text
        if param is not None:
            assert response.json()["error"]["param"] == param

    def test_a_load_that_fails_says_why(self, serve: Serve) -> None:
        broken = FakeRuntime(name="llama_cpp", load_error=LoadError("`/srv/x.gguf` is broken"))
        response = serve(broken).client.post(f"/v1/models/{MODEL}/load")
        assert response.status_code == 500
        assert response.json()["error"]["message"] == "`x.gguf` is broken"


def test_an_embedding_model(client: TestClient, store: Store, tmp_path: Path) -> None:
    bert.write_bert(tmp_path / "bert.gguf", bert.Bert())
    import_path(parse("acme/vectors"), tmp_path / "bert.gguf", store)
    name = next(m["id"] for m in get(client, "/v1/models")["data"] if "vectors" in m["id"])
    assert client.post(f"/v1/models/{name}/load").json()["id"] == name
    assert get(client, "/v1/ps")["data"][0]["purpose"] == "embedding"
    response = client.post("/tokenize", json={"model": name, "content": "hi"})
    assert response.status_code == 200, response.text
    # one set of contexts for both
    assert len(get(client, "/v1/ps")["data"]) == 1


class TestUnload:
    def load(self, served: Served) -> None:
        assert served.client.post(f"/v1/models/{MODEL}/load").status_code == 200

    @pytest.mark.parametrize("name", [MODEL, "tiny", quote(MODEL, safe="")])
    def test_by_any_spelling(self, serve: Serve, name: str) -> None:
        served = serve()
        self.load(served)
        response = served.client.post(f"/v1/models/{name}/unload")
        assert response.json() == {"id": MODEL, "object": "model.unloaded", "unloaded": 1}

    def test_nothing_to_unload(self, client: TestClient) -> None:
        assert client.post(f"/v1/models/{MODEL}/unload").json()["unloaded"] == 0
        assert client.post("/v1/models/none/none/unload").status_code == 404

    def test_the_next_request_loads_again(self, serve: Serve) -> None:
        served = serve()
        self.load(served)
        served.client.post(f"/v1/models/{MODEL}/unload")
        self.load(served)
        assert len(served.runtime.loads) == 2


def test_lists_answer_while_a_model_loads(serve: Serve, tiny_chat: Path) -> None:
    loads = Loads()
    loads.hold(tiny_chat)
    served = serve(opener=loads, preload=(MODEL,))
    eventually(lambda: bool(loads.begun))
    assert get(served.client, "/v1/models")["data"]
    assert get(served.client, "/v1/ps")["data"][0]["loading"] is True
    assert served.client.get("/ready").status_code == 503
    assert served.client.get("/health").status_code == 200
