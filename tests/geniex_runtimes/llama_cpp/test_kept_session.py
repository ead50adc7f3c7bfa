"""A chat's state in a file: a restarted chat goes on from it, and a bad file only costs time."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from geniex_runtimes.llama_cpp import keeping, prefix_file
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.options import PrefixCache, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import Result, answer, load, resolved
from tests.toys import mamba

HYBRID = Path(__file__).parents[2] / "data" / "models" / "q35-mix-q8.gguf"
PROMPT = [5 + index * 7 % 200 for index in range(300)]
MORE = [9, 8, 7, 6, 5, 4, 3, 11]
# target, draft, what drafts
PAIRS = {
    "shared": ("g4-markov-target.gguf", "g4-markov-draft.gguf", "draft-mtp"),
    "own": ("q35-mix.gguf", None, "draft-mtp"),
    "chained": ("mimo-mix.gguf", None, "draft-mtp"),
    "simple": ("g4-markov-target.gguf", "g4-random-target.gguf", "draft-simple"),
    "n-gram": ("g4-markov-target.gguf", None, "ngram-simple"),
}


@contextmanager
def session(model: Path, file: Path | None, **options: object) -> Iterator[LlamaCppModel]:
    cache = PrefixCache(file=file) if file is not None else None
    with load(model, prefix_cache=cache, **options) as loaded:
        yield loaded


def ask(model: LlamaCppModel, prompt: list[int]) -> Result:
    return answer(model, prompt, max_tokens=12, logprobs=0)


def follow_up(first: Result) -> list[int]:
    return [*PROMPT, *(entry.token for entry in first.logprobs), *MORE]


def make(model: Path, file: Path, **options: object) -> list[int]:
    """A session with one turn; the prompt of the next."""
    with session(model, file, **options) as loaded:
        return follow_up(ask(loaded, PROMPT))


@pytest.fixture(scope="module")
def kept(tiny_chat: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    file = tmp_path_factory.mktemp("kept") / "chat.kv"
    return file, make(tiny_chat, file)


@pytest.fixture(scope="module")
def models(tiny_chat: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of each kind of memory."""
    recurrent = mamba.make(tmp_path_factory.mktemp("toy") / "mamba.gguf")
    return {"sliding-window": tiny_chat, "hybrid": HYBRID, "recurrent": recurrent}


@pytest.mark.parametrize("which", ["sliding-window", "hybrid", "recurrent"])
def test_a_restarted_chat_answers_as_if_it_were_evaluated_anew(
    which: str, models: dict[str, Path], tmp_path: Path
) -> None:
    model = models[which]
    file = tmp_path / "chat.kv"
    longer = make(model, file)
    with session(model, file) as loaded:
        assert loaded.info.restored_tokens > len(PROMPT)
        assert not loaded.info.restore_failure
        warm = ask(loaded, longer)
    profile = warm.done.profile
    assert profile.cached_tokens == profile.restored_tokens == loaded.info.restored_tokens
    with session(model, None) as loaded:
        cold = ask(loaded, longer)
    assert [one.token for one in warm.logprobs] == [one.token for one in cold.logprobs]
    assert cold.done.profile.restored_tokens == 0


@pytest.mark.parametrize("mode", PAIRS)
def test_speculation_goes_on_from_it_with_the_same_answer(
    mode: str, toys: Path, tmp_path: Path
) -> None:
    target, draft, kind = PAIRS[mode]
    options = {
        "speculative": SpeculativeOptions((kind,), adapt=False, require=True),
        "draft": resolved(toys / draft) if draft is not None else None,
    }
    longer = make(toys / target, tmp_path / "chat.kv", **options)
    with session(toys / target, tmp_path / "chat.kv", **options) as loaded:
        warm = ask(loaded, longer)
        # what the drafter knows of the chat is not mixed up either
        again = ask(loaded, [*longer, *(one.token for one in warm.logprobs), *MORE])
    assert warm.done.profile.restored_tokens > len(PROMPT)
    assert warm.done.profile.spec_state is not None
    with session(toys / target, None) as loaded:
        cold = ask(loaded, longer)
        later = ask(loaded, [*longer, *(one.token for one in cold.logprobs), *MORE])
    assert warm.text == cold.text
    assert again.text == later.text


@pytest.mark.parametrize(
    ("which", "length"),
    [
        pytest.param("sliding-window", len(PROMPT) - keeping.BEFORE_ANSWER, id="sliding-window"),
        pytest.param("hybrid", 240, id="hybrid"),  # whole multiples of 60
        pytest.param("recurrent", 240, id="recurrent"),
    ],
)
def test_an_answer_that_is_told_differently_costs_little(
    which: str, length: int, models: dict[str, Path], tmp_path: Path
) -> None:
    # as by templates that leave out what was thought; none can be cut back anywhere
    model = models[which]
    file = tmp_path / "chat.kv"
    make(model, file)
    differently = [*PROMPT[:-5], *range(400, 440)]
    with session(model, file) as loaded:
        warm = ask(loaded, differently)
        fresh = answer(loaded, differently, max_tokens=12, reuse_prefix=False)
    assert warm.done.profile.restored_tokens == length
    assert warm.text == fresh.text


def test_the_last_question_is_what_is_kept(tiny_chat: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.kv"
    make(tiny_chat, file)
    other = PROMPT[::-1]
    with session(tiny_chat, file) as loaded:
        ask(loaded, other)
    assert prefix_file.read_head(file).shared(prefix_file.tokens_of(other)) == len(other)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_it_is_for_its_owner_alone(kept: tuple[Path, list[int]]) -> None:
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        pytest.param(lambda data: data[:-1], "not whole", id="truncated"),
        pytest.param(lambda data: data[:40], "not whole", id="a-beginning"),
        pytest.param(lambda data: b"", "not whole", id="empty"),
        pytest.param(lambda data: data + b"x", "not whole", id="longer"),
        pytest.param(lambda data: _flip(data, len(data) - 9), "checksum is wrong", id="state"),
        pytest.param(lambda data: _flip(data, 40), "its head", id="checksum"),
        pytest.param(lambda data: _flip(data, 70), "its head", id="head"),
        pytest.param(lambda data: _flip(data, 23), "its head", id="length-of-head"),
        pytest.param(lambda data: data.replace(b"x 1", b"x 2"), "another version", id="newer"),
        pytest.param(lambda data: data.replace(b"model", b"madel"), "its head", id="edited"),
    ],
)
def test_a_bad_file_is_evaluated_anew(
    damage: Callable[[bytes], bytes],
    why: str,
    kept: tuple[Path, list[int]],
    tiny_chat: Path,
    tmp_path: Path,
) -> None:
    file = tmp_path / "chat.kv"
    file.write_bytes(damage(kept[0].read_bytes()))
    file.chmod(0o600)
    with session(tiny_chat, file) as loaded:
        assert loaded.info.restored_tokens == 0
        assert why in loaded.info.restore_failure
        assert ask(loaded, [*PROMPT, 3]).done.profile.cached_tokens == 0
    # and is a good one afterwards
    with session(tiny_chat, file) as loaded:
        assert loaded.info.restored_tokens > len(PROMPT)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param({"slots": 2}, "other options", id="slots"),
        pytest.param({"context_length": 128}, "more than the context", id="shorter-context"),
        pytest.param({"extra_buffers": False}, "other options", id="not-repacked"),
        pytest.param({"kv_type": "q8_0"}, "other options", id="kv-type"),
    ],
)
def test_what_was_made_otherwise_is_not_used(
    options: dict[str, object],
    why: str,
    kept: tuple[Path, list[int]],
    tiny_chat: Path,
    tmp_path: Path,
) -> None:
    file = tmp_path / "chat.kv"
    file.write_bytes(kept[0].read_bytes())
    file.chmod(0o600)
    with session(tiny_chat, file, **options) as loaded:
        assert why in loaded.info.restore_failure


def test_another_model_is_told(kept: tuple[Path, list[int]]) -> None:
    with session(HYBRID, kept[0]) as loaded:
        assert "another model file" in loaded.info.restore_failure


def test_another_build_is_told(
    kept: tuple[Path, list[int]], tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geniex_runtimes.llama_cpp.survival.build_key", lambda package: "newer")
    with session(tiny_chat, kept[0]) as loaded:
        assert "another build" in loaded.info.restore_failure


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_what_others_may_have_written_is_not_used(
    kept: tuple[Path, list[int]], tiny_chat: Path, tmp_path: Path
) -> None:
    file = tmp_path / "chat.kv"
    file.write_bytes(kept[0].read_bytes())
    file.chmod(0o622)
    with session(tiny_chat, file) as loaded:
        assert "another user" in loaded.info.restore_failure


def test_a_pipe_in_its_place_makes_nobody_wait(tiny_chat: Path, tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names here")
    os.mkfifo(tmp_path / "chat.kv")
    with session(tiny_chat, tmp_path / "chat.kv") as loaded:
        assert loaded.info.restore_failure


def test_somebody_elses_file_stays_as_it_is(
    tiny_chat: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "chat.kv"
    file.write_bytes(b"my novel")
    make(tiny_chat, file)
    assert file.read_bytes() == b"my novel"
    assert "something else" in caplog.text


def test_a_full_disk_is_a_warning(
    tiny_chat: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("geniex_catalogue.durable.write", full)
    make(tiny_chat, tmp_path / "chat.kv")
    assert "No space left on device" in caplog.text
    assert not (tmp_path / "chat.kv").exists()


def test_no_copy_is_made_where_there_is_no_memory_for_it(
    tiny_chat: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(keeping, "_free_memory", lambda: 1000)
    make(tiny_chat, tmp_path / "chat.kv")
    assert "no memory for a copy" in caplog.text


def test_a_head_tells_what_it_shares() -> None:
    head = prefix_file.Head(Path(), {}, prefix_file.tokens_of([1, 2, 3]), 0, 0.0, 0, 0, "")
    assert head.shared(prefix_file.tokens_of([1, 2, 4])) == 2
    assert head.shared(prefix_file.tokens_of([1, 2, 3, 4])) == 3
    assert replace(head, tokens=prefix_file.tokens_of([])).shared(head.tokens) == 0
