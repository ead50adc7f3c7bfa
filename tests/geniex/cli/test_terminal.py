"""On a terminal: Ctrl-C at every moment, the chat and its keys, and a terminal left as found."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs a pseudo terminal", allow_module_level=True)

from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from tests.hubserver import HubServer
from tests.terminal import Terminal, python, terminal


def scripted(*args: str) -> tuple[str, ...]:
    return python("tests.scripted_geniex", *args)


@pytest.fixture
def chat(data_dir: Path) -> Iterator[Terminal]:
    with terminal(*scripted("plain", "infer", "--no-think")) as made:
        made.wait_for("Send a message")
        made.forget()
        yield made


@pytest.mark.parametrize(
    ("scenario", "sign"),
    [
        pytest.param("slow-load", "loading model", id="load"),
        pytest.param("deaf-load", "loading model", id="load that hears nothing"),
        pytest.param("slow-prefill", "encoding", id="prefill"),
        pytest.param("endless", "word word", id="decode"),
    ],
)
def test_ctrl_c_ends_it_within_a_second(data_dir: Path, scenario: str, sign: str) -> None:
    with terminal(*scripted(scenario, "infer", "-p", "hi")) as shown:
        shown.wait_for(sign)
        shown.type("\x03")
        code, seconds = shown.leave()
        assert code == 130
        assert seconds < 1.0
        assert shown.settings() == shown.before
        assert "Traceback" not in shown.text
        assert shown.raw.rfind("\x1b[?25h") > shown.raw.rfind("\x1b[?25l"), "the cursor is there"


def test_a_second_ctrl_c_waits_for_nothing(data_dir: Path) -> None:
    with terminal(*scripted("deaf-load", "infer", "-p", "hi")) as shown:
        shown.wait_for("loading model")
        shown.type("\x03")
        shown.look(0.1)
        shown.type("\x03")
        code, seconds = shown.leave()
        assert code == 130 and seconds < 0.45
        assert shown.settings() == shown.before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_the_terminal_as_found(
    data_dir: Path, number: signal.Signals, code: int
) -> None:
    with terminal(*scripted("endless", "infer")) as shown:
        shown.wait_for("Send a message")
        shown.type("hi\r")
        shown.wait_for("word word")
        os.kill(shown.process.pid, number)
        if number is signal.SIGINT:  # one stops the answer; the chat goes on
            shown.wait_for("(stopped)")
            shown.type("\x04")
            code = 0
        assert shown.leave()[0] == code
        assert shown.settings() == shown.before


# the moment's name: scenario, arguments, what is shown then, kind of terminal
MOMENTS = {
    "prompt": ("plain", ("infer",), "Send a message", "xterm"),
    "prompt, dumb": ("plain", ("infer",), "\n>", "dumb"),
    "load of a chat": ("slow-load", ("infer",), "loading model", "xterm"),
    "load": ("slow-load", ("infer", "-p", "hi"), "loading model", "xterm"),
    "prefill": ("slow-prefill", ("infer", "-p", "hi"), "encoding", "xterm"),
    "decode": ("endless", ("infer", "-p", "hi"), "word word", "xterm"),
}


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [
        *((signal.SIGTERM, 143, moment) for moment in MOMENTS),
        # one handler for all: where another one would differ is who owns the terminal
        *((signal.SIGHUP, 129, moment) for moment in ("prompt", "prompt, dumb", "decode")),
        *((signal.SIGQUIT, 131, moment) for moment in ("prompt", "prompt, dumb", "load")),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else str(value),
)
def test_a_signal_to_end_leaves_the_terminal_as_found(
    data_dir: Path, number: signal.Signals, code: int, moment: str
) -> None:
    scenario, args, sign, kind = MOMENTS[moment]
    with terminal(*scripted(scenario, *args), TERM=kind) as shown:
        shown.wait_for(sign)
        shown.look(0.2)
        os.kill(shown.process.pid, number)
        assert shown.leave()[0] == code
        assert shown.settings() == shown.before
        for on, off in (("\x1b[?25l", "\x1b[?25h"), ("\x1b[?2004h", "\x1b[?2004l")):
            assert shown.raw.rfind(off) >= shown.raw.rfind(on)


def test_a_hang_up_that_is_ignored_stays_ignored(data_dir: Path) -> None:
    # as `nohup` starts it
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminal(*scripted("plain", "infer")) as shown:
            shown.wait_for("Send a message")
            os.kill(shown.process.pid, signal.SIGHUP)
            shown.type("hi\r")
            shown.wait_for("world!")
            shown.type("\x04")
            assert shown.leave()[0] == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_in_a_pull_keeps_what_has_arrived(
    data_dir: Path, hub: HubServer, tiny_chat: Path
) -> None:
    hub.add("org/repo", {"model-Q8_0.gguf": tiny_chat.read_bytes()})
    hub.pace = 500_000
    with terminal(*python("geniex", "pull", "org/repo")) as shown:
        shown.wait_for("KiB/s")
        shown.type("\x03")
        code, seconds = shown.leave()
        assert code == 130 and seconds < 1.0
        assert "what has arrived is kept" in shown.text
        assert shown.settings() == shown.before
    with terminal(*python("geniex", "list", "--all")) as shown:
        assert shown.leave()[0] == 0
        assert "partial" in shown.text


def test_questions_are_asked(data_dir: Path) -> None:
    with terminal(*scripted("plain", "clean")) as shown:
        shown.wait_for("Are you sure")
        shown.type("n\n")
        assert shown.leave()[0] == 1


class TestDraftQuestion:
    """`--spec-type auto` offers the draft that the catalogue knows."""

    TARGET = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf"
    DRAFT = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf"

    @pytest.fixture(autouse=True)
    def _stocked(
        self, data_dir: Path, hub: HubServer, tiny_chat: Path, tiny_chat_draft: Path
    ) -> None:
        import_path(ModelRef(*self.TARGET.split("/")), tiny_chat, Store(data_dir))
        hub.add(self.DRAFT, {"draft-Q4_0.gguf": tiny_chat_draft.read_bytes()})

    def question(self, *args: str) -> AbstractContextManager[Terminal]:
        command = scripted("plain", "infer", self.TARGET, "--spec-type", "auto", *args)
        return terminal(*command)

    @pytest.mark.parametrize(
        ("answer", "chosen"),
        [("y", f"draft-mtp, with {DRAFT}:Q4_0"), ("n", "ngram-simple, its draft is not here")],
    )
    def test_yes_and_no(self, answer: str, chosen: str) -> None:
        with self.question("-p", "hi") as shown:
            shown.wait_for(f"Download {self.DRAFT}:Q4_0")
            shown.type(f"{answer}\n")
            assert shown.leave()[0] == 0
            assert f"speculation: {chosen}" in shown.text and "Hello, world!" in shown.text

    def test_ctrl_c_is_no_answer(self) -> None:
        with self.question("-p", "hi") as shown:
            shown.wait_for("Download ")
            shown.type("\x03")
            assert shown.leave()[0] == 130
            assert "Hello" not in shown.text and shown.settings() == shown.before

    def test_a_chat_asks_before_it_begins(self) -> None:
        with self.question() as shown:
            shown.wait_for("Download ")
            shown.type("n\n")
            shown.wait_for("Send a message")
            shown.type("hi\r")
            shown.wait_for("Hello, world!")
            shown.type("\x04")
            assert shown.leave()[0] == 0 and shown.settings() == shown.before


class TestChat:
    def test_answers_and_leaves(self, chat: Terminal) -> None:
        chat.type("hi\r")
        chat.wait_for("Hello, world!")
        chat.wait_for("stop reason")
        chat.type("\x04")
        assert chat.leave()[0] == 0
        assert chat.settings() == chat.before

    def test_stdout_has_the_answers_alone(self, data_dir: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        command = f"exec {shlex.join(scripted('plain', 'infer'))} > {shlex.quote(str(out))}"
        with terminal("sh", "-c", command) as shown:
            shown.wait_for("Send a message")
            shown.type("hi\r")
            shown.wait_for("stop reason")
            shown.type("/exit\r")
            assert shown.leave()[0] == 0
        assert out.read_text() == "Hello, world!\n"

    def test_ctrl_c_keeps_the_chat(self, data_dir: Path) -> None:
        with terminal(*scripted("endless-then-plain", "infer")) as shown:
            shown.wait_for("Send a message")
            shown.type("hi\r")
            shown.wait_for("word word")
            shown.type("\x03")
            shown.wait_for("(stopped)")
            shown.forget()
            shown.type("/show\r")
            assert "messages            2" in shown.wait_for("max_tokens")
            shown.type("again\r")
            shown.wait_for("Hello, world!")
            shown.type("/exit\r")
            assert shown.leave()[0] == 0

    def test_a_full_context_has_a_way_out(self, data_dir: Path) -> None:
        with terminal(*scripted("plain", "infer", "--nctx", "70", "-q")) as shown:
            shown.wait_for("Send a message")
            shown.type("x" * 40 + "\r")
            shown.wait_for("Hello")
            shown.type("more\r")
            shown.wait_for("context_length_exceeded")
            shown.wait_for("hint: `/clear` forgets the chat")
            shown.type("/clear\r")
            shown.forget()
            shown.type("more\r")
            shown.wait_for("Hello, world!")

    def test_ctrl_c_at_the_prompt(self, chat: Terminal) -> None:
        chat.type("half a thought")
        chat.wait_for("half a thought")
        chat.type("\x03")
        chat.wait_for("Send a message")
        chat.type("\x03")
        chat.wait_for("Ctrl-D or /exit leaves")
        chat.type("\x04")
        assert chat.leave()[0] == 0

    @pytest.mark.parametrize(
        "keys",
        [
            pytest.param(["one\x1b\rtwo", "\r"], id="alt-enter"),
            pytest.param(["one", "\n", "two", "\r"], id="ctrl-j"),
            pytest.param(["one\ntwo\r"], id="ctrl-j at once"),
            pytest.param(['"""one\r', 'two"""\r'], id="quotes"),
            pytest.param(["\x1b[200~one\ntwo\x1b[201~", "\r"], id="paste"),
        ],
    )
    def test_several_lines_are_one_turn(
        self, chat: Terminal, keys: list[str], tmp_path: Path
    ) -> None:
        for some in keys:
            chat.type(some)
            chat.look(0.15)
        chat.wait_for("stop reason")
        assert asked(chat, tmp_path / "chat.json") == ["one\ntwo"]

    def test_a_line_typed_ahead_is_sent(self, data_dir: Path, tmp_path: Path) -> None:
        with terminal(*scripted("plain", "infer")) as shown:
            shown.type("early\r")  # the terminal is not in the editor's hands yet
            shown.wait_for("stop reason")
            assert asked(shown, tmp_path / "chat.json") == ["early"]

    def test_history_is_kept(self, chat: Terminal, data_dir: Path) -> None:
        chat.type("remember me\r")
        chat.wait_for("stop reason")
        chat.type("\x04")
        chat.leave()
        assert (data_dir / "history").stat().st_mode & 0o777 == 0o600
        with terminal(*scripted("plain", "infer")) as again:
            again.wait_for("Send a message")
            again.type("\x1b[A")
            again.wait_for("remember me")

    def test_save_and_load(self, chat: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "chat.json"
        chat.type("/set system be brief\r")
        chat.type("hi\r")
        chat.wait_for("stop reason")
        assert asked(chat, file) == ["hi"]
        chat.type("/clear\r/show\r")
        chat.wait_for("messages            0")
        chat.type(f"/load {file}\r")
        chat.wait_for("2 messages")
        chat.type("/save /nowhere/x\r")
        chat.wait_for("cannot write")

    def test_commands_that_are_wrong(self, chat: Terminal) -> None:
        for line, told in (
            ("/nonsense", "Unknown command: /nonsense"),
            ("/set", "give `/set KEY VALUE`"),
            ("/set colour red", "keys: temperature"),
            ("/set temperature hot", "`hot` is no value"),
            ("/load", "give `/load FILE`"),
            ("/load /nowhere", "cannot read"),
        ):
            chat.forget()
            chat.type(f"{line}\r")
            chat.wait_for(told)
        chat.type("/etc/hosts is a file\r")
        chat.wait_for("Hello, world!")

    def test_a_history_that_cannot_be_kept(self, data_dir: Path) -> None:
        (data_dir / "history").mkdir(parents=True)
        with terminal(*scripted("plain", "infer")) as shown:
            shown.wait_for("history is not kept")
            shown.type("hi\r")
            shown.wait_for("Hello, world!")

    def test_a_dumb_terminal_gets_no_escapes(self, data_dir: Path) -> None:
        command = scripted("plain", "infer", "-p", "hi")
        with terminal(*command, TERM="dumb") as shown:
            shown.leave()
            assert "\x1b" not in shown.raw
        with terminal(*scripted("plain", "infer"), TERM="dumb") as shown:
            shown.wait_for("> ")
            shown.type("hi\n")
            shown.wait_for("Hello, world!")
            shown.type('"""two\nlines"""\n')
            shown.wait_for(". ")
            shown.type("/show\n")
            shown.wait_for("messages            4")
            shown.type("\x04")
            assert shown.leave()[0] == 0 and "\x1b" not in shown.raw
        with terminal(*command, NO_COLOR="1") as shown:
            shown.leave()
            assert "\x1b[2m" not in shown.raw and "\x1b[3" not in shown.raw


def asked(chat: Terminal, file: Path) -> list[str]:
    """What the user said so far, by way of `/save`."""
    chat.forget()
    chat.type(f"/save {file}\r")
    chat.wait_for("saved to")
    messages = json.loads(file.read_text(encoding="utf-8"))["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]
