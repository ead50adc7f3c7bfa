"""`--save-session`: a chat that is left and goes on, with the built-in model."""

import json
import os
from pathlib import Path

import pytest

from geniex.cli.saved_chat import SavedChat, read_chat
from tests.cliharness import Cli, Result

LONG = "I like the sea. " * 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.json"


def ask(cli: Cli, file: Path, prompt: str, *words: str) -> Result:
    fixed = ["--nctx", "1024", "--threads", "1", "--max-tokens", "8", "--temperature", "0"]
    result = cli("infer", "tiny", "-p", prompt, "--save-session", str(file), *fixed, *words)
    assert result.code == 0, result.err
    return result


def test_a_chat_goes_on_where_it_was_left(cli: Cli, file: Path) -> None:
    first = ask(cli, file, LONG)
    assert f"a new session, kept in `{file}`" in first.err
    second = ask(cli, file, "And you?", "--json").json
    session, usage = second["session"], second["usage"]
    assert session["messages"] == 2 and session["evaluated_anew"] is None
    assert session["restored_tokens"] > 200
    assert 150 < usage["cached_tokens"] < usage["prompt_tokens"]
    third = ask(cli, file, "Bye.")
    assert f"4 messages from `{file}`" in third.err
    assert "from disk:" in third.err
    told = [message["content"] for message in json.loads(file.read_text())["messages"]]
    assert told[::2] == [LONG, "And you?", "Bye."]


def test_the_answer_is_that_of_a_chat_that_was_never_left(cli: Cli, file: Path) -> None:
    fixed = [
        "--nctx",
        "1024",
        "--threads",
        "1",
        "--max-tokens",
        "8",
        "--temperature",
        "0",
        "--json",
    ]
    whole = cli("infer", "tiny", "-p", LONG, "-p", "What is two plus two?", *fixed).json
    ask(cli, file, LONG)
    assert ask(cli, file, "What is two plus two?", "--json").json["answer"] == whole["answer"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_both_files_are_for_their_owner_alone(cli: Cli, file: Path) -> None:
    ask(cli, file, "hi")
    state = file.with_name("chat.json.kv")
    assert [path.stat().st_mode & 0o777 for path in (file, state)] == [0o600, 0o600]


def test_a_damaged_state_is_told_and_the_chat_goes_on(cli: Cli, file: Path) -> None:
    ask(cli, file, "hi")
    state = file.with_name("chat.json.kv")
    state.write_bytes(state.read_bytes()[:-1])
    second = ask(cli, file, "And you?")
    assert "Warning: the chat is evaluated anew: `chat.json.kv` cannot be used" in second.err
    assert "2 messages" in second.err
    assert "evaluated anew" not in ask(cli, file, "Bye.").err


def test_a_lost_state_and_another_system_prompt_are_told(cli: Cli, file: Path) -> None:
    ask(cli, file, "hi")
    assert "the system prompt is another one" in ask(cli, file, "And?", "-s", "Be brief.").err
    file.with_name("chat.json.kv").unlink()
    assert "there is no `chat.json.kv`" in ask(cli, file, "Bye.").err


@pytest.mark.parametrize("text", ["my novel", "{}", "[1]"])
def test_a_file_that_is_no_chat_stays_as_it_is(cli: Cli, file: Path, text: str) -> None:
    file.write_text(text)
    result = cli("infer", "tiny", "-p", "hi", "--save-session", str(file))
    assert (result.code, file.read_text()) == (2, text)
    assert "is no saved chat" in result.err


def test_what_another_session_kept_meanwhile_stays(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(cli, file, "hi")

    def read(path: Path) -> SavedChat | None:
        found = read_chat(path)
        path.write_text(path.read_text().replace("hi", "bonjour"))
        return found

    monkeypatch.setattr("geniex.cli.chat_session.read_chat", read)
    result = ask(cli, file, "And you?", "-p", "Bye.", "--json")
    assert result.err.count("was changed meanwhile, and stays as it is") == 1
    assert "was changed meanwhile" in result.json["session"]["not_kept"]
    told = [message["content"] for message in json.loads(file.read_text())["messages"]]
    assert told[0] == "bonjour" and len(told) == 2


def test_a_folder_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    result = cli("infer", "tiny", "-p", "hi", "--save-session", str(tmp_path / "no" / "chat"))
    assert result.code == 2 and "is no folder" in result.err


def test_what_cannot_be_kept_is_told(cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geniex_runtimes.llama_cpp.keeping._free_memory", lambda: 0)
    assert "Warning: " in (told := ask(cli, file, "hi").err)
    assert "no memory for a copy" in told


def test_a_raw_turn_is_of_no_chat(cli: Cli, file: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("1 2 3")
    result = cli("infer", "tiny", "-t", str(tokens), "--save-session", str(file))
    assert result.code == 2 and "leave one of them out" in result.err
    assert not file.exists()


def test_a_folder_that_cannot_be_written_is_told_before_the_load(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geniex.cli.chat_session.os.access", lambda path, mode: False)
    result = cli("infer", "tiny", "-p", "hi", "--save-session", str(file))
    assert result.code == 2 and "cannot be written" in result.err and not result.out


def test_a_full_disk_is_told_once_and_in_the_json(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes, *, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("geniex.cli.saved_chat.durable.write", full)
    result = ask(cli, file, "hi", "-p", "Bye.", "--json")
    assert result.err.count("Warning: the session is not kept: cannot write") == 1
    assert "No space left" in result.json["session"]["not_kept"]
    monkeypatch.undo()
    assert ask(cli, file, "hi", "--json").json["session"]["not_kept"] is None
