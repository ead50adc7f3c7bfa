"""Weights are in memory once, however many models are made on them."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.llama_cpp import library
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.options import LoadOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved, turn

QUESTION = turn("What is the capital of France?")
PARIS = "The capital of France is Paris."
MTP = SpeculativeOptions(("draft-mtp",))


@dataclass
class Native:
    """How often llama.cpp loaded and freed weights."""

    loads: list[bytes] = field(default_factory=list)
    frees: int = 0


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Native:
    counted = Native()
    api = library.load().api
    really_load, really_free = api.llama_model_load_from_file, api.llama_model_free

    def loading(path: bytes, params: Any) -> Any:
        counted.loads.append(path)
        return really_load(path, params)

    def freeing(model: Any) -> None:
        counted.frees += 1
        really_free(model)

    monkeypatch.setattr(api, "llama_model_load_from_file", loading)
    monkeypatch.setattr(api, "llama_model_free", freeing)
    return counted


@pytest.fixture
def own_copy(tiny_chat: Path, tmp_path: Path) -> Path:
    """The tiny model as a file that no other test has open."""
    return Path(shutil.copy(tiny_chat, tmp_path))


def test_other_options_share_the_weights(
    native: Native, own_copy: Path, tiny_chat_draft: Path, tmp_path: Path
) -> None:
    draft = resolved(Path(shutil.copy(tiny_chat_draft, tmp_path)))
    plain = load(own_copy)
    shorter = load(own_copy, context_length=512, slots=2)
    for n_max in (2, 3):
        speculative = SpeculativeOptions(("draft-mtp",), n_max=n_max)
        with load(own_copy, speculative=speculative, draft=draft, slots=2) as drafted:
            assert drafted.info.speculation == ("draft-mtp",)
            assert answer(drafted, QUESTION).text == answer(plain, QUESTION).text == PARIS
    assert len(native.loads) == 3, "the target once, the draft twice: it was free in between"
    plain.close()
    assert answer(shorter, QUESTION).text == PARIS, "the first to load may leave first"
    assert native.frees == 2
    shorter.close()
    shorter.close()
    assert native.frees == 3


def test_a_link_is_the_same_file_and_a_change_is_another(
    native: Native, own_copy: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(own_copy)
    with load(own_copy), load(link):
        assert len(native.loads) == 1
        replaced = Path(shutil.copy(own_copy, tmp_path / "new.gguf")).replace(own_copy)
        with load(replaced) as new:
            assert answer(new, QUESTION).text == PARIS
        assert len(native.loads) == 2
    assert native.frees == 2


def test_loads_at_the_same_time_load_once(native: Native, own_copy: Path) -> None:
    together = threading.Barrier(6)

    def one(_: int) -> str:
        together.wait(timeout=30)
        with load(own_copy, context_length=512) as model:
            said = answer(model, QUESTION).text
            together.wait(timeout=30)
            return said

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(6))) == [PARIS] * 6
    assert (len(native.loads), native.frees) == (1, 1)


def test_a_failed_load_is_tried_anew(native: Native, tmp_path: Path, tiny_chat: Path) -> None:
    broken = tmp_path / "broken.gguf"
    data = tiny_chat.read_bytes().replace(b"gemma4.block_count", b"gemma4.block_cound", 1)
    broken.write_bytes(data)
    for tries in (1, 2):
        with pytest.raises(LoadError, match=r"broken\.gguf"):
            load(broken)
        assert len(native.loads) == tries


def test_who_gives_up_takes_no_other_load_along(native: Native, own_copy: Path) -> None:
    begun, other_waits = threading.Event(), threading.Event()
    errors: list[LoadError] = []

    def give_up(_: float) -> bool:
        begun.set()
        other_waits.wait(timeout=30)
        return False

    def waiting(_: float) -> bool:
        other_waits.set()
        return True

    def impatient() -> None:
        try:
            LlamaCppRuntime().load(resolved(own_copy), LoadOptions(), progress=give_up)
        except LoadError as exc:
            errors.append(exc)

    thread = threading.Thread(target=impatient)
    thread.start()
    assert begun.wait(timeout=30)
    options = LoadOptions(threads=1, context_length=512)
    with LlamaCppRuntime().load(resolved(own_copy), options, progress=waiting) as model:
        assert isinstance(model, LlamaCppModel)
        assert answer(model, QUESTION).text == PARIS
    thread.join(timeout=30)
    assert len(errors) == 1 and len(native.loads) == 2


def test_heads_that_are_kept_serve_both(native: Native, toys: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(toys / "q35-mix.gguf", tmp_path))
    prompt = [2, 300, 301, 302]
    with load(file) as plain:
        expected = answer(plain, prompt, max_tokens=20).text
    with load(file, keep_heads=True) as plain:
        assert answer(plain, prompt, max_tokens=20).text == expected
        with load(file, speculative=MTP) as drafted:
            assert drafted.info.speculation == ("draft-mtp",)
            assert answer(drafted, prompt, max_tokens=20).text == expected
    assert len(native.loads) == 2


@pytest.mark.parametrize("name", ["mimo-hollow.gguf", "exaone4-heads.gguf"])
def test_heads_that_are_not_to_be_used_are_not_kept(toys: Path, name: str) -> None:
    with load(toys / name, keep_heads=True) as model:
        assert answer(model, [2, 300], max_tokens=2).done.profile.generated_tokens


def test_contexts_go_before_the_weights(native: Native, own_copy: Path) -> None:
    old = load(own_copy)
    old.free_contexts()
    with load(own_copy) as new:
        old.close()
        assert answer(new, QUESTION).text == PARIS
    assert (len(native.loads), native.frees) == (1, 1)


_RSS = """
import sys
from pathlib import Path
import psutil
from tests.geniex_runtimes.llama_cpp.answers import load
def size(): return psutil.Process().memory_info().rss
file = Path(sys.argv[1])
first = load(file, context_length=512)
before = size()
second = load(file, context_length=256)
third = load(file, context_length=512, slots=2)
print((size() - before) / file.stat().st_size)
"""


@pytest.mark.slow
def test_a_second_model_takes_no_second_copy(smollm2: Path, request: pytest.FixtureRequest) -> None:
    root = request.config.rootpath
    found = subprocess.run(
        [sys.executable, "-c", _RSS, str(smollm2)],
        capture_output=True, text=True, check=True, cwd=root, timeout=120,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                map(str, (root, root / "runtimes", root / "catalogue"))
            ),
        },
    )  # fmt: skip
    assert float(found.stdout) < 0.9, "of the file's size, for the contexts"
