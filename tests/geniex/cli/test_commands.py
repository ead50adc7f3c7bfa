"""The `/` commands of a chat: what they change, and what they refuse."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from geniex.cli.chat_session import ChatSession
from geniex.cli.commands import Commands
from geniex.cli.conversation import Conversation
from geniex.cli.output import Output
from geniex.cli.saved_chat import read_chat
from geniex.config import Settings
from geniex.session import AnswerOptions, open_model
from geniex_catalogue.errors import UsageError
from geniex_runtimes.fake import FakeRuntime, Script

Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.fixture
def conversation(scripted: Install, tmp_path: Path) -> Iterator[Conversation]:
    scripted(FakeRuntime(name="llama_cpp"))
    with open_model("tiny", Settings(data_dir=tmp_path)) as model:
        yield Conversation(model, Output(), AnswerOptions(max_tokens=7))


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("/set temperature 0", "temperature", 0.0),
        ("/set top-p 0.5", "top_p", 0.5),
        ("/set seed 3", "seed", 3),
        ("/set frequency_penalty -1", "frequency_penalty", -1.0),
        ("/set max_tokens 3", "max_tokens", 3),
        ("/set max_tokens -1", "max_tokens", None),
        ("/set think off", "think", False),
        ("/set stop a b", "stop", ("a b",)),
    ],
)
def test_set(conversation: Conversation, line: str, name: str, value: object) -> None:
    commands = Commands(conversation)
    before = conversation.options
    commands.run(line)
    options = conversation.options
    assert getattr(options if hasattr(options, name) else options.sampling, name) == value
    commands.run(f"/set {name} default")
    assert conversation.options == before


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/set seed -1", "`-1` is no value for `seed`"),
        ("/set top_p 3", "`3` is no value for `top_p`"),
        ("/set temperature -3", "`-3` is no value"),
        ("/set temperature nan", "`nan` is no value"),
        ("/set max_tokens 0", "1 or more"),
        ("/set max_tokens -2", "`-2` is no value"),
        ("/set max_tokens many", "`many` is no value"),
        ("/set foo 1", "`foo` is no key"),
        ("/set foo", "`foo` is no key"),
        ("/set top_p", "give `/set KEY VALUE`"),
    ],
)
def test_what_is_refused_changes_nothing(conversation: Conversation, line: str, told: str) -> None:
    before = conversation.options
    with pytest.raises(UsageError, match=told):
        Commands(conversation).run(line)
    assert conversation.options == before


def test_a_turn_without_an_answer_is_not_kept(scripted: Install, tmp_path: Path) -> None:
    scripted(FakeRuntime(Script(()), Script(), name="llama_cpp"))
    with open_model("tiny", Settings(data_dir=tmp_path)) as model:
        conversation = Conversation(model, Output(), AnswerOptions())
        conversation.ask("nothing?")
        conversation.ask("hello")
    assert [message.text for message in conversation.messages] == ["hello", "Hello, world!"]


@pytest.mark.parametrize("command", ["/load", "/save"])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no devices among files")
def test_a_chat_is_a_regular_file(conversation: Conversation, tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path)):
        with pytest.raises(UsageError, match=f"cannot read `{path}`"):
            Commands(conversation).run(f"{command} {path}")


def test_a_session_may_be_saved_to_its_own_file(
    scripted: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(FakeRuntime(name="llama_cpp"))
    with open_model("tiny", Settings(data_dir=tmp_path)) as model:
        conversation = Conversation(model, Output(), AnswerOptions())
        session = ChatSession(tmp_path / "chat", Output())
        session.begin(conversation, model.loaded.info)
        conversation.ask("one")
        Commands(conversation).run(f"/save {tmp_path / 'chat'}")
        conversation.ask("two")
    assert "meanwhile" not in capsys.readouterr().err
    kept = read_chat(tmp_path / "chat")
    assert kept is not None and [one.text for one in kept.messages][::2] == ["one", "two"]
