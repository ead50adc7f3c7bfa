"""The published walk through MTP, as it is written, with the built-in pair under its names."""

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store
from tests.geniex.server.live import LiveServer, running

TARGET = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf:Q4_0"
DRAFT = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf:Q4_0"
PAGE = (Path(__file__).parents[3] / "docs" / "server.md").read_text(encoding="utf-8")
(BODY,) = (json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, tiny_chat: Path, tiny_chat_draft: Path
) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("tutorial")
    for name, file in ((TARGET, tiny_chat), (DRAFT, tiny_chat_draft)):
        copy = folder / f"{file.stem.removesuffix('-Q8_0')}-Q4_0.gguf"
        shutil.copy(file, copy)
        import_path(parse(name), copy, Store(folder / "data"))
    with running(data_dir=folder / "data") as made:
        yield made


def post(server: LiveServer, body: dict[str, Any]) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_body_answers_and_counts_drafts(server: LiveServer) -> None:
    assert (BODY["model"], BODY["spec_draft_model"]) == (TARGET, DRAFT)
    status, answer = post(server, BODY)
    assert status == 200 and answer["choices"][0]["message"]["content"]
    assert answer["model"] == TARGET
    assert answer["geniex"]["context_length"] == BODY["nctx"] == 8192
    drafted = answer["geniex"]["speculation"]
    assert drafted["types"] == ["draft-mtp"] and drafted["draft_model"] == DRAFT
    counted = answer["usage"]["completion_tokens_details"]
    proposed = counted["accepted_prediction_tokens"] + counted["rejected_prediction_tokens"]
    assert proposed == drafted["proposed"] > 0


def test_changed_fields_make_other_contexts_on_the_same_weights(server: LiveServer) -> None:
    for count in (3, 2, 1):
        status, answer = post(server, {**BODY, "spec_n_max": count, "max_completion_tokens": 8})
        assert status == 200 and answer["geniex"]["speculation"]["types"] == ["draft-mtp"]
    with urllib.request.urlopen(f"{server.url}/v1/ps", timeout=60) as response:
        residents = json.load(response)["data"]
    assert {one["id"] for one in residents} == {TARGET}
    assert all(one["shared_bytes"] > 0 for one in residents)


def test_a_draft_is_never_downloaded(server: LiveServer) -> None:
    missing = "RachidAR/nothing-here-gguf:Q4_0"
    status, answer = post(server, {**BODY, "spec_draft_model": missing})
    assert status == 400 and answer["error"]["code"] == "draft_model_not_found"
    assert f"geniex pull {missing}" in answer["error"]["message"]
    status, _ = post(server, {**BODY, "max_completion_tokens": 4})
    assert status == 200
