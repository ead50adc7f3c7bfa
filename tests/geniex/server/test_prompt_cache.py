"""`--cache-dir`: long prompts are kept on disk, and a server that starts anew goes on from them."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from geniex.cli import kept
from geniex.config import read_settings
from geniex.server.app import build_app
from geniex.server.pool import Pool, PoolOptions
from geniex.server.state import ServerState
from tests.geniex.server.conftest import MODEL
from tests.geniex.server.door import options_of

LONG = "Tell me a story about the sea. " * 40


def chat(client: TestClient, *messages: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    body = {
        "model": MODEL,
        "messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)],
        "max_tokens": 6,
        "temperature": 0,
        "nctx": 1024,
    }
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def served(tmp_path: Path, folder: Path | None) -> TestClient:
    """A server over the real runtime, in this process."""
    flags = {"data_dir": str(tmp_path / "data"), "threads": 1}
    if folder is not None:
        flags |= {"cache_dir": str(folder), "cache_size": "1G"}
    settings = kept.with_cache(read_settings(flags, {}), sized=folder is not None)
    state = ServerState(settings, options_of(), Pool(settings, PoolOptions(slots=2)))
    return TestClient(build_app(state))


def cached(answer: dict[str, Any]) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_a_chat_goes_on_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with served(tmp_path, folder) as client:
        first = chat(client, LONG)
        text = first["choices"][0]["message"]["content"]
        other = chat(client, LONG + "Now a poem.")
        assert cached(other) > 256
    with served(tmp_path, folder) as client:
        again = chat(client, LONG, text, "And then?")
        assert cached(again) > 256
        # what prompts have in common serves another one
        assert cached(chat(client, LONG + "Now a song.")) > 256
    with served(tmp_path, None) as client:
        cold = chat(client, LONG, text, "And then?")
    assert cached(cold) == 0
    assert again["choices"][0]["message"] == cold["choices"][0]["message"]


def test_a_full_disk_fails_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("geniex_catalogue.durable.write", full)
    with served(tmp_path, tmp_path / "kept") as client:
        for letter in "abc":  # two slots
            chat(client, letter + LONG)


def test_the_file_of_settings_says_it_too(tmp_path: Path) -> None:
    variables = {"GENIEX_CACHE_DIR": str(tmp_path / "kept"), "GENIEX_CACHE_SIZE": "512M"}
    flags = {"data_dir": str(tmp_path / "data")}
    cache = kept.with_cache(read_settings(flags, variables), sized=False).prefix_cache
    assert cache is not None
    assert (cache.folder, cache.size) == (tmp_path / "kept", 512 << 20)
    assert "512.0 MiB at most: private" in kept.told(cache)
    assert kept.with_cache(read_settings(flags, {}), sized=False).prefix_cache is None
