"""`geniex serve --isolate`: what ends an engine ends no server."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from openai import APIError, InternalServerError, OpenAI

from tests.geniex.server.door import wait_for
from tests.geniex.server.live import PATIENCE, LiveServer, running

MODEL, DRAFT = "geniex/tiny-chat", "geniex/tiny-chat-draft"
PARIS = "The capital of France is Paris."
FRANCE: Any = [{"role": "user", "content": "What is the capital of France?"}]
# the tokens that would end an answer are never drawn
ENDLESS: Any = {"logit_bias": {"1": -99, "9": -99, "16": -99}, "stream": True, "temperature": 0}

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


def workers(server: LiveServer) -> list[psutil.Process]:
    """The worker processes of a server that live."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [one for one in children if "geniex_runtimes.llama_cpp.isolated.worker" in one.cmdline()]


def client_of(server: LiveServer) -> OpenAI:
    return OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=2 * PATIENCE)


def france(client: OpenAI, model: str = MODEL, **fields: Any) -> str:
    answer = client.chat.completions.create(
        model=model, messages=FRANCE, temperature=0, extra_body={"enable_think": False, **fields}
    )
    return answer.choices[0].message.content or ""


@pytest.fixture(scope="module")
def copy(tiny_chat: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the model that comes to harm."""
    path = tmp_path_factory.mktemp("copy") / "copy.gguf"
    path.write_bytes(tiny_chat.read_bytes())
    return path


@pytest.fixture(scope="module")
def served(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """At its end no worker is left, and nothing failed that it had not foreseen."""
    data_dir = tmp_path_factory.mktemp("isolated")
    flags = ("--isolate", "--parallel", "2", "--mmap")
    with running(str(copy), *flags, data_dir=data_dir) as server:
        yield server
        left = workers(server)
        assert server.end() == 0
        _, alive = psutil.wait_procs(left, timeout=PATIENCE)
        assert not alive
        assert not [line for line in server.log if "Traceback" in line]


@pytest.fixture(scope="module")
def client(served: LiveServer) -> Iterator[OpenAI]:
    with client_of(served) as client:
        yield client


@posix
def test_a_worker_that_is_killed_mid_stream_is_an_error(served: LiveServer, client: OpenAI) -> None:
    assert france(client) == PARIS
    before = workers(served)
    streams = [
        client.chat.completions.create(model=MODEL, messages=FRANCE, **ENDLESS) for _ in range(2)
    ]
    for stream in streams:
        next(iter(stream))
    for worker in before:
        worker.kill()
    for stream in streams:
        with pytest.raises(APIError, match="was killed by SIGKILL"):
            list(stream)
    assert france(client) == PARIS
    after = psutil.Process(served.process.pid).children(recursive=True)
    assert not {one.pid for one in after} & {one.pid for one in before}
    assert not [one for one in after if one.status() == psutil.STATUS_ZOMBIE]


@posix
def test_a_worker_that_is_killed_is_an_error_of_the_whole_answer(
    served: LiveServer, client: OpenAI
) -> None:
    assert france(client) == PARIS
    idle = {one: one.cpu_times().user for one in workers(served)}

    def kill_when_busy() -> None:
        wait_for(lambda: any(one.cpu_times().user > was + 0.3 for one, was in idle.items()))
        for one in idle:
            one.kill()

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    with pytest.raises(InternalServerError) as caught:
        client.chat.completions.create(
            model=MODEL, messages=FRANCE, **{**ENDLESS, "stream": False, "max_tokens": 100_000}
        )
    killer.join()
    assert caught.value.code == "worker_crashed"
    assert "new worker" in str(caught.value)
    assert france(client) == PARIS


def test_contexts_of_one_model_have_one_worker(served: LiveServer, client: OpenAI) -> None:
    assert france(client) == PARIS
    before = {one.pid for one in workers(served)}
    assert france(client, nctx=512) == PARIS
    drafted: dict[str, Any] = {
        "spec_type": "draft-mtp",
        "spec_draft_model": DRAFT,
        "require_spec": True,
    }
    assert france(client, **drafted) == PARIS
    vectors = client.embeddings.create(model=MODEL, input=["a fox", "an owl"])
    assert len(vectors.data) == 2 and len(vectors.data[0].embedding) > 10
    mine = [one for one in _ps(client) if one["id"] == f"{MODEL}:Q8_0"]
    assert len(mine) > 1 and all(one["bytes"] > 3_000_000 for one in mine)
    assert {one.pid for one in workers(served)} == before


def _ps(client: OpenAI) -> list[dict[str, Any]]:
    found: Any = client.get("/ps", cast_to=object)
    return list(found["data"])


@posix
def test_ps_tells_which_process_has_a_model(served: LiveServer, client: OpenAI) -> None:
    def mine() -> list[dict[str, Any]]:
        return [one for one in _ps(client) if one["id"] == f"{MODEL}:Q8_0"]

    assert france(client) == PARIS
    pid = mine()[0]["worker_pid"]
    (worker,) = [one for one in workers(served) if one.pid == pid]
    assert not any(one["crashed"] for one in mine())
    worker.kill()
    wait_for(lambda: all(one["crashed"] and one["worker_pid"] is None for one in mine()))
    assert france(client) == PARIS
    assert any(not one["crashed"] and one["worker_pid"] != pid for one in mine())


@posix
def test_a_model_file_that_is_cut_under_the_engine(
    served: LiveServer, client: OpenAI, copy: Path
) -> None:
    """Its weights are mapped from the file: to read what is gone ends a process."""
    assert france(client, str(copy), nctx=1024) == PARIS
    stream = client.chat.completions.create(
        model=str(copy), messages=FRANCE, extra_body={"nctx": 1024}, **ENDLESS
    )
    next(iter(stream))
    os.truncate(copy, copy.stat().st_size // 3)
    with pytest.raises(APIError, match="was killed by SIGBUS"):
        list(stream)
    with pytest.raises(InternalServerError, match=r"copy\.gguf") as caught:
        france(client, str(copy))
    assert caught.value.code == "model_unusable"
    assert france(client) == PARIS


@posix
def test_no_worker_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    with running("--isolate", data_dir=tmp_path) as server, client_of(server) as client:
        stream = client.chat.completions.create(model=MODEL, messages=FRANCE, **ENDLESS)
        next(iter(stream))
        left = workers(server)
        server.end(signal.SIGKILL)
        assert len(left) == 1
        _, alive = psutil.wait_procs(left, timeout=PATIENCE)
        assert not alive
