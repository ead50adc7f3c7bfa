"""`geniex infer --isolate`: a chat that outlives its engine, and the same answers."""

import sys
from pathlib import Path

import psutil
import pytest

import geniex
from geniex_catalogue.errors import UsageError
from tests.cliharness import Cli

QUESTION = "What is the capital of France?"
PARIS = "The capital of France is Paris."


def workers(pid: int | None = None) -> list[psutil.Process]:
    """The workers of a process, of this one without a number; it may have other children."""
    children = psutil.Process(pid).children(recursive=True)
    return [one for one in children if "geniex_runtimes.llama_cpp.isolated.worker" in one.cmdline()]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_chat_goes_on_after_its_engine_has_died(data_dir: Path) -> None:
    from tests.terminal import python, terminal

    endless = ("--grammar-string", 'root ::= "x" root')
    with terminal(*python("geniex", "infer", "--isolate", "--no-think", *endless)) as shown:
        shown.wait_for("Send a message")
        (worker,) = workers(shown.process.pid)
        shown.type(f"{QUESTION}\r")
        shown.wait_for("xxx")
        worker.kill()
        shown.wait_for("was killed by SIGKILL")
        shown.forget()
        shown.type(f"{QUESTION}\r")
        shown.wait_for("xxx")
        (another,) = workers(shown.process.pid)
        shown.type("\x03")
        shown.wait_for("(stopped)")
        shown.type("\x04")
        code, _ = shown.leave()
        assert code == 0 and another.pid != worker.pid
        assert "Traceback" not in shown.text


@pytest.fixture
def copy(tiny_chat: Path, tmp_path: Path) -> Path:
    """A file of its own, whose worker nobody else has."""
    path = tmp_path / "copy.gguf"
    path.write_bytes(tiny_chat.read_bytes())
    return path


def test_by_flag_variable_and_file(
    cli: Cli, data_dir: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = workers()
    ask = ("infer", str(copy), "--no-think", "-q", "-p", QUESTION)
    assert cli(*ask, "--isolate").out == f"{PARIS}\n"
    monkeypatch.setenv("GENIEX_ISOLATE", "perhaps")
    assert "perhaps" in cli(*ask).err
    monkeypatch.delenv("GENIEX_ISOLATE")
    assert cli("config", "set", "isolate", "yes").code == 0
    assert cli(*ask).out == cli(*ask, "--no-isolate").out == f"{PARIS}\n"
    assert workers() == before, "they end with the command"


def test_from_python(data_dir: Path, copy: Path) -> None:
    before = workers()
    with geniex.load(copy, isolate=True, data_dir=data_dir) as model:
        assert len(workers()) == len(before) + 1
        assert str(model.chat(QUESTION, temperature=0, think=False)) == PARIS
        schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}}
        shape = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
        answer = str(model.chat(QUESTION, temperature=0, response_format=shape))
        assert answer.startswith("{") and answer.endswith("}")
        with pytest.raises(UsageError):
            model.chat(QUESTION, grammar='root ::= "a" (')
    assert workers() == before
