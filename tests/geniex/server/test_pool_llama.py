"""The pool with llama.cpp: contexts come and go while answers run on the same weights."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex.chat.messages import Message
from geniex.config import Settings
from geniex.server.pool import Lease, ModelWish, Pool, PoolOptions
from geniex.session import Answer, AnswerOptions
from geniex.speculation_wish import read_wish
from geniex_runtimes.errors import NoRuntimeError
from geniex_runtimes.llama_cpp import library
from geniex_runtimes.options import SamplingOptions
from tests.geniex.server.pools import Going, eventually

HI = [Message("user", "What is the capital of France?")]
GREEDY = SamplingOptions(temperature=0)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    settings = Settings(data_dir=tmp_path, compute="cpu", threads=1)
    made = Pool(settings, PoolOptions(slots=2, keep_alive=None))
    yield made
    made.close()


def said(lease: Lease) -> Answer:
    *_, answer = lease.model.answer(HI, AnswerOptions(GREEDY))
    assert isinstance(answer, Answer)
    return answer


def test_speculation_is_built_beside_a_running_answer(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, loads = library.load().api, []
    really = api.llama_model_load_from_file

    def loading(path: bytes, params: object) -> object:
        loads.append(path)
        return really(path, params)

    monkeypatch.setattr(api, "llama_model_load_from_file", loading)
    plain = pool.acquire(ModelWish("geniex/tiny-chat"))
    events = iter(plain.model.answer(HI, AnswerOptions(GREEDY)))
    first = next(events)
    for n_max in (2, 3):
        wish = read_wish("draft-mtp", "geniex/tiny-chat-draft", draft_tokens=n_max)
        with pool.acquire(ModelWish("geniex/tiny-chat", speculation=wish)) as drafted:
            answer = said(drafted)
            assert answer.content.endswith("Paris.") and answer.profile.draft_proposed
    *_, whole = (first, *events)
    assert isinstance(whole, Answer) and whole.content == answer.content
    targets = [path for path in loads if b"draft" not in path]
    assert len(targets) <= 1, "the weights stay"
    assert len(pool.residents()) == 3


def test_an_embedding_model_gives_vectors_and_no_chat(pool: Pool, toys: Path) -> None:
    name = str(toys / "bert-mean.gguf")
    for purpose in ("embedding", None):
        with pool.acquire(ModelWish(name, purpose=purpose)) as lease:
            assert len(lease.model.loaded.embed(["a cat", "a dog"]).vectors) == 2
            assert lease.model.loaded.info.context_length == 1024
    assert [one.purpose for one in pool.residents()] == ["embedding"]
    with pytest.raises(NoRuntimeError, match="gives vectors"):
        pool.acquire(ModelWish(name))


def test_a_model_answers_and_gives_vectors(pool: Pool) -> None:
    with (
        pool.acquire(ModelWish(purpose=None)) as chat,
        pool.acquire(ModelWish(purpose="embedding")) as vectors,
    ):
        assert said(chat).content.endswith("Paris.")
        assert vectors.model.loaded.embed(["hi"]).tokens
        assert "not made for embeddings" in " ".join(vectors.model.warnings)


def test_a_model_that_does_not_load_leaves_the_others(
    pool: Pool, tmp_path: Path, tiny_chat: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    data = tiny_chat.read_bytes().replace(b"gemma4.block_count", b"gemma4.block_cound", 1)
    broken.write_bytes(data)
    with pool.acquire(ModelWish()) as lease:
        going = Going(pool, ModelWish(str(broken)))
        with pytest.raises(Exception, match=r"broken\.gguf"):
            going.result()
        assert said(lease).content.endswith("Paris.")
    eventually(lambda: len(pool.residents()) == 1)


_COME_AND_GO = """
import sys, time
from pathlib import Path
import psutil
from geniex.config import Settings
from geniex.server.pool import ModelWish, Pool, PoolOptions
from geniex.session import AnswerOptions
pool = Pool(Settings(Path(sys.argv[1]), threads=1, compute="cpu"), PoolOptions(keep_alive=None))
sizes = []
for _ in range(8):
    leases = [pool.acquire(ModelWish(nctx=length)) for length in range(2000, 4500, 500)]
    for lease in leases:
        list(lease.model.complete("Hello", AnswerOptions(max_tokens=2)))
        lease.close(keep_alive=0)
    while pool.residents():
        time.sleep(0.01)
    sizes.append(psutil.Process().memory_info().rss)
pool.close()
print(min(sizes[-3:]) - sizes[0])
"""


def test_what_is_freed_goes_back_to_the_system(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each load has a thread of its own, and glibc would keep what was freed for each of them."""
    root = request.config.rootpath
    paths = (root, root / "runtimes", root / "catalogue")
    found = subprocess.run(
        [sys.executable, "-c", _COME_AND_GO, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < 100e6
