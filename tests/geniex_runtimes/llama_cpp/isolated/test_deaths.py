"""Workers that die, hang or never start to live: what is told, what the next request gets."""

import logging
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.contract import SPEC_FALLBACK, Done, PromptPiece
from geniex_runtimes.errors import WorkerCrashedError, WorkerRestingError
from geniex_runtimes.llama_cpp.isolated import process, remote, roster
from geniex_runtimes.llama_cpp.isolated.model import IsolatedModel
from geniex_runtimes.options import SpeculativeOptions
from geniex_runtimes.workers import process as workers_process
from geniex_runtimes.workers import wire
from tests.geniex_runtimes.llama_cpp.answers import answer, resolved, turn
from tests.geniex_runtimes.llama_cpp.isolated.workers import (
    ENDLESS,
    end_worker,
    gone,
    isolated,
    pid_of,
    until,
)
from tests.geniex_runtimes.llama_cpp.test_first_load import FLOAT, patched

ROOT = Path(__file__).parents[4]
QUESTION = turn("What is the capital of France?")
PARIS = "The capital of France is Paris."

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@posix
@pytest.mark.parametrize("name", ["SIGKILL", "SIGABRT"])
def test_a_death_takes_along_what_it_was_about(own_chat: Path, name: str) -> None:
    with isolated(own_chat, slots=2) as model:
        running, waiting = [model.generate(ENDLESS) for _ in range(2)], model.generate(ENDLESS)
        for one in running:
            next(one)
        pid = end_worker(model, getattr(signal, name))
        for one in (*running, waiting):
            with pytest.raises(WorkerCrashedError, match=f"was killed by {name}$") as caught:
                list(one)
            assert str(caught.value.hint).startswith("send the request again: it gets a new worker")
            assert ("out of memory" in str(caught.value.hint)) == (name == "SIGKILL")
            assert next(one, None) is None
        result = answer(model, QUESTION)
        assert result.text == PARIS and result.done.profile.ttft > 0.05, "the load is told"
        assert gone(pid) and pid_of(model) != pid


@posix
def test_a_worker_that_dies_at_rest_is_replaced(own_chat: Path) -> None:
    with isolated(own_chat) as first, isolated(own_chat, context_length=512) as second:
        before = end_worker(first, signal.SIGKILL)
        assert first.tokenize([PromptPiece("hi")]) == second.tokenize([PromptPiece("hi")])
        assert pid_of(first) == pid_of(second) != before, "they have one worker again"
        assert answer(second, QUESTION).text == answer(first, QUESTION).text == PARIS


@posix
def test_one_that_keeps_dying_rests(own_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "_REST", (0.5, 60.0))
    with isolated(own_chat) as model:
        answer(model, QUESTION)
        for _ in range(2):
            end_worker(model, signal.SIGSEGV)
            model.tokenize([PromptPiece("hi")])  # a new worker; that alone does not prove it
        end_worker(model, signal.SIGSEGV)
        with pytest.raises(WorkerRestingError, match="3 times in a row") as caught:
            answer(model, QUESTION)
        assert "the last one was killed by SIGSEGV" in str(caught.value)
        assert 0 < caught.value.retry_after <= 1.0
        with pytest.raises(WorkerRestingError):
            isolated(own_chat)
        time.sleep(caught.value.retry_after)
        assert answer(model, QUESTION).text == PARIS
        end_worker(model, signal.SIGSEGV)
        assert answer(model, QUESTION).text == PARIS, "a good answer starts the count anew"


def test_a_file_that_kills_it_is_an_error_with_the_last_words(
    tiny_chat: Path, tmp_path: Path
) -> None:
    key = "gemma4.attention.layer_norm_rms_epsilon"
    bad = patched(tmp_path / "bad.gguf", tiny_chat, key, FLOAT, struct.pack("<f", -1.0))
    with pytest.raises(LoadError) as caught:
        isolated(bad)
    message = caught.value.message
    assert message.startswith("`bad.gguf` does not load: the worker was killed by SIGABRT while")
    assert "GGML_ASSERT" in message and "eps" in message and "/" not in message
    assert "damaged" in str(caught.value.hint)


def test_a_draft_that_kills_it_is_left_out(
    own_chat: Path, tiny_chat_draft: Path, tmp_path: Path
) -> None:
    key = "gemma4-assistant.attention.layer_norm_rms_epsilon"
    bad = patched(tmp_path / "bad.gguf", tiny_chat_draft, key, FLOAT, struct.pack("<f", -1.0))
    wanted = SpeculativeOptions(("draft-mtp",))
    with isolated(own_chat, speculative=wanted, draft=resolved(bad)) as model:
        (warning,) = model.info.warnings
        assert warning.startswith(SPEC_FALLBACK) and "SIGABRT" in warning
        assert model.info.speculation == () and answer(model, QUESTION).text == PARIS
    required = SpeculativeOptions(("draft-mtp",), require=True)
    with pytest.raises(LoadError, match="while it loaded"):
        isolated(own_chat, speculative=required, draft=resolved(bad))


@posix
def test_one_that_says_nothing_is_ended(own_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with isolated(own_chat) as model:
        pid = pid_of(model)
        running = model.generate(ENDLESS)
        next(running)
        psutil.Process(pid).suspend()
        with monkeypatch.context() as patch:
            patch.setattr(remote, "SILENCE", 1.0)
            with pytest.raises(WorkerCrashedError, match="said nothing for 1 s and was ended"):
                list(running)
        assert answer(model, QUESTION).text == PARIS and gone(pid)


@posix
def test_one_that_does_not_end_an_answer_is_ended(
    own_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "CANCEL_SECONDS", 1.0)
    with isolated(own_chat) as model:
        pid = pid_of(model)
        running = model.generate(ENDLESS)
        next(running)
        psutil.Process(pid).suspend()
        running.stop()
        with pytest.raises(WorkerCrashedError, match="did not end an answer within 1 s"):
            list(running)
        assert answer(model, QUESTION).text == PARIS and gone(pid)


@posix
def test_it_is_not_ended_for_a_sleep_of_the_machine(
    own_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody had looked for longer than the patience: that says nothing of the worker."""
    with isolated(own_chat) as model:
        pid = pid_of(model)
        monkeypatch.setattr(remote, "SILENCE", 0.5)
        monkeypatch.setattr(remote, "_PAUSE", 0.3)
        time.sleep(0.6)
        assert answer(model, QUESTION).text == PARIS and pid_of(model) == pid


def test_a_worker_that_does_not_start(own_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_MODULE", "geniex_runtimes.not_there")
    with pytest.raises(LoadError, match="the worker ended with code 1 while it loaded") as caught:
        isolated(own_chat)
    assert "No module named geniex_runtimes.not_there" in caught.value.message


def test_a_worker_of_another_version(own_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an upgrade under a program that runs on."""
    monkeypatch.setattr(process, "DIGEST", "--messages=another")
    with pytest.raises(LoadError, match="changed on disk since the program was started"):
        isolated(own_chat)


def test_one_that_says_what_is_no_report(own_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tests.geniex_runtimes.llama_cpp.isolated.babbler"
    monkeypatch.setattr(process, "_MODULE", module)
    with pytest.raises(LoadError, match="wrote what is no report") as caught:
        isolated(own_chat)
    assert "(no level at all; 99 root a name of others)" in caught.value.message


@posix
def test_a_file_that_is_cut_under_it(own_chat: Path) -> None:
    """Its weights are mapped from the file: to read what is gone ends the process."""
    with isolated(own_chat) as model:
        running = model.generate(ENDLESS)
        next(running)
        os.truncate(own_chat, own_chat.stat().st_size // 3)
        with pytest.raises(WorkerCrashedError, match="was killed by SIGBUS"):
            list(running)
        with pytest.raises(LoadError, match="has changed since it was loaded"):
            answer(model, QUESTION)


@posix
def test_a_file_that_has_changed_is_not_loaded_again(own_chat: Path) -> None:
    with isolated(own_chat) as model:
        end_worker(model, signal.SIGKILL)
        os.utime(own_chat, ns=(1, 1))
        with pytest.raises(LoadError, match="has changed since it was loaded"):
            answer(model, QUESTION)


@posix
def test_a_model_that_is_closed_while_it_is_loaded_again(own_chat: Path) -> None:
    model = isolated(own_chat)
    end_worker(model, signal.SIGKILL)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            answer(model, QUESTION)
        except Exception as exc:
            errors.append(exc)

    asking = threading.Thread(target=ask)
    asking.start()
    model.close()
    asking.join()
    assert model.worker_pid is None
    assert not errors or "given up" in str(errors[0]) or "closed" in str(errors[0])


@posix
def test_fifty_deaths_leave_nothing(own_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, no thread, no process, no zombie; each death hits a running answer."""
    me = psutil.Process()
    others = set(me.children())

    def die(model: IsolatedModel) -> None:
        running = model.generate(ENDLESS)
        next(running)
        psutil.Process(pid_of(model)).kill()
        with pytest.raises(WorkerCrashedError):
            list(running)

    monkeypatch.setattr(roster, "_TOLERATED", 100)
    with isolated(own_chat) as model:
        for _ in range(3):
            die(model)
        before = (me.num_fds(), threading.active_count())
        for _ in range(DEATHS):
            die(model)
        until(lambda: len(set(me.children()) - others) <= 1, "there are others")
        assert (me.num_fds(), threading.active_count()) <= before
        assert answer(model, QUESTION).text == PARIS


DEATHS = int(os.environ.get("GENIEX_TEST_DEATHS", "5"))

PARENT = """
import logging, os, sys, threading
from pathlib import Path
from tests.geniex_runtimes.llama_cpp.isolated.workers import ENDLESS, isolated
found = []
def work():
    found.append(isolated(Path(sys.argv[1])))
thread = threading.Thread(target=work)
thread.start()
thread.join()
(model,) = found
running = model.generate(ENDLESS)
next(running)
print(model.worker_pid, flush=True)
next(running)
os._exit(0)
"""


def test_a_worker_ends_with_its_parent_and_not_with_the_thread_that_loaded(own_chat: Path) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, str(own_chat)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        timeout=100,
    )
    pid = int(parent.stdout)
    until(lambda: gone(pid), "the worker lives on")


def test_an_answer_is_thrown_away_while_something_is_sent(
    own_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector may do so anywhere: it waits for no lock, and is heard all the same."""
    with isolated(own_chat) as model:
        thrown = [model.generate(ENDLESS)]
        next(thrown[0])

        def write(descriptor: int, data: bytes) -> None:
            thrown.clear()
            wire.write(descriptor, data)

        monkeypatch.setattr(workers_process, "write", write)
        assert answer(model, QUESTION).text == PARIS, "it had the only slot"


def test_the_log_of_a_worker_is_the_log_of_its_parent(
    own_chat: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "geniex")
    with isolated(own_chat) as model:
        running = model.generate(ENDLESS)
        next(running)
        running.stop()
        *_, done = running
    assert isinstance(done, Done)
    native = [r for r in caplog.records if "llama_model_loader" in r.message]
    assert native and {r.name for r in native} == {"geniex.llama_cpp.native"}
