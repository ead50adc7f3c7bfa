"""Where turns come from, in which order, and that nothing waits for a person who is not there."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from geniex.cli import prompts
from geniex.cli.prompts import Turns, read_stops, read_tokens, read_turns
from geniex_catalogue.errors import UsageError


class Pipe:
    """stdin as a pipe that the test writes to."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self.stream = os.fdopen(reader, "r", encoding="utf-8")

    def send(self, data: bytes) -> "Pipe":
        os.write(self.writer, data)
        return self

    def end(self) -> "Pipe":
        os.close(self.writer)
        return self


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    made = Pipe()
    monkeypatch.setattr(sys, "stdin", made.stream)
    yield made
    made.stream.close()


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.mark.parametrize(
    ("given", "piped", "texts"),
    [
        pytest.param((), b"hi\n", ("hi",), id="stdin alone"),
        pytest.param(("hi",), b"", ("hi",), id="prompt, nothing piped"),
        pytest.param(("sum up", "thanks"), b"text\n", ("sum up\n\ntext", "thanks"), id="combined"),
        pytest.param(("a", "-", "b"), b"piped", ("a", "piped", "b"), id="dash is a turn"),
        pytest.param((), b"\xef\xbb\xbfcaf\xc3\xa9", ("café",), id="byte order mark"),
        pytest.param((), b"two\nlines\n", ("two\nlines",), id="several lines"),
    ],
)
def test_turns(
    pipe: Pipe, notes: list[str], given: tuple[str, ...], piped: bytes, texts: tuple[str, ...]
) -> None:
    pipe.send(piped).end()
    assert read_turns(given, None, None, notes.append) == Turns(texts=texts)


def test_the_file_comes_first(pipe: Pipe, notes: list[str], tmp_path: Path) -> None:
    file = tmp_path / "turn.txt"
    file.write_text("\ufefffrom the file\n", encoding="utf-8")
    pipe.send(b"piped").end()
    turns = read_turns(("then", "-"), file, None, notes.append)
    assert turns == Turns(texts=("from the file", "then", "piped"))


@pytest.mark.parametrize("given", [(), ("-",), ("",), ("a", "  ")])
def test_nothing_to_say_is_wrong_use(pipe: Pipe, notes: list[str], given: tuple[str, ...]) -> None:
    pipe.end()
    with pytest.raises(UsageError):
        read_turns(given, None, None, notes.append)


@pytest.mark.parametrize(
    ("given", "piped"),
    [
        pytest.param((), b"caf\xe9", id="stdin"),
        pytest.param(("-",), b"\x00\xff\x01", id="dash"),
        pytest.param(("sum up",), b"\xff\xd8\xff\xe0", id="a picture beside a prompt"),
        pytest.param(("bad \udcff",), b"", id="argument"),
    ],
)
def test_what_is_no_text_is_refused(
    pipe: Pipe, notes: list[str], given: tuple[str, ...], piped: bytes
) -> None:
    pipe.send(piped).end()
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_turns(given, None, None, notes.append)


def test_a_closed_stdin_is_nothing(notes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert read_turns(("hi",), None, None, notes.append) == Turns(texts=("hi",))
    with pytest.raises(UsageError, match="no prompt"):
        read_turns((), None, None, notes.append)


def test_stdin_is_one_turn_only(pipe: Pipe, notes: list[str]) -> None:
    with pytest.raises(UsageError, match="one turn"):
        read_turns(("-", "-"), None, None, notes.append)
    pipe.end()


def test_a_slow_writer_is_waited_for(
    pipe: Pipe, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "TELL_AFTER", 0.1)

    def write() -> None:
        time.sleep(0.3)
        pipe.send(b"late")
        time.sleep(0.2)
        pipe.send(b"r").end()

    threading.Thread(target=write).start()
    turns = read_turns(("first",), None, None, notes.append)
    assert turns == Turns(texts=("first\n\nlater",))
    assert len(notes) == 1 and "waiting for stdin" in notes[0]


def test_a_stdin_that_nobody_uses_does_not_hold_a_prompt(
    pipe: Pipe, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "GIVE_UP_AFTER", 0.2)
    assert read_turns(("hi",), None, None, notes.append) == Turns(texts=("hi",))
    assert "going on" in notes[-1]
    pipe.end()


def test_token_files(pipe: Pipe, tmp_path: Path, notes: list[str]) -> None:
    pipe.end()
    file = tmp_path / "tokens"
    file.write_text("1 22\n333\t4\n")
    assert read_turns((), None, file, notes.append) == Turns(tokens=(1, 22, 333, 4))
    assert notes == [f"Using token IDs from file: {file} (4 tokens)"]
    with pytest.raises(UsageError, match="turn of its own"):
        read_turns(("hi",), None, file, notes.append)


def test_a_token_file_drops_nothing_that_is_piped_in(
    pipe: Pipe, tmp_path: Path, notes: list[str]
) -> None:
    (tmp_path / "tokens").write_text("1 2")
    pipe.send(b"text").end()
    with pytest.raises(UsageError, match="turn of its own"):
        read_turns((), None, tmp_path / "tokens", notes.append)


@pytest.mark.parametrize("content", ["1 -2", "1 two", "0x10", "²", ""])
def test_bad_token_files(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"invalid token ID|no token IDs"):
        read_tokens(file)


@pytest.mark.parametrize("name", ["missing", "folder", "latin"])
def test_files_that_do_not_read_are_named(tmp_path: Path, notes: list[str], name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(UsageError, match=name):
        read_turns((), tmp_path / name, None, notes.append)


def test_stop_files(tmp_path: Path) -> None:
    file = tmp_path / "stops"
    file.write_bytes(b"User:\r\n\r\n  two words\n")
    assert read_stops(file) == ("User:", "  two words")
    assert read_stops(None) == ()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs an endless device")
def test_endless_files_are_refused(notes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "_MAX_TEXT", 1 << 20)
    for read in (
        lambda path: read_turns((), path, None, notes.append),
        read_tokens,
        read_stops,
    ):
        with pytest.raises(UsageError, match="`/dev/zero` has more than 16 MiB"):
            read(Path("/dev/zero"))


def test_an_endless_stdin_is_refused(
    pipe: Pipe, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "_MAX_TEXT", 1 << 17)

    def write() -> None:
        # until nobody reads any more
        with contextlib.suppress(BrokenPipeError):
            while True:
                pipe.send(b"y\n" * 512)

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(UsageError, match="stdin has more than 16 MiB"):
        read_turns((), None, None, notes.append)
    pipe.stream.close()
    writer.join(5)
    assert not writer.is_alive()
    pipe.end()


def test_the_longest_text_is_taken(
    pipe: Pipe, notes: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prompts, "_MAX_TEXT", 8)
    (tmp_path / "f").write_text("12345678")
    pipe.send(b"abcdefgh").end()
    turns = read_turns((), tmp_path / "f", None, notes.append)
    assert turns == Turns(texts=("12345678\n\nabcdefgh",))


def test_running_out_of_memory_on_stdin_does_not_hang(
    pipe: Pipe, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int, count: int) -> bytes:
        raise MemoryError

    monkeypatch.setattr(os, "read", fail)
    with pytest.raises(MemoryError):
        read_turns((), None, None, notes.append)
    pipe.end()
