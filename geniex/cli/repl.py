"""The chat at the terminal: a line editor, `/` commands, and answers that Ctrl-C can stop.

Enter sends; Alt-Enter or Ctrl-J starts a new line; a text that begins with three double quotes goes
on over Enter until they come again. The editor draws on stderr, so that stdout has answers alone.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from geniex.cli import terminal
from geniex.cli.commands import Commands
from geniex.cli.conversation import Conversation
from geniex.cli.errors import tell
from geniex.cli.output import is_dumb
from geniex.config_file import make_data_dir
from geniex_catalogue.errors import GenieXError, ServerError, StoreError
from geniex_runtimes.errors import ContextLengthError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.key_binding.key_processor import KeyProcessor

QUOTES = '"""'
INVITATION = "Send a message (/? for help)"


class Repl:
    """Reads a turn, runs it, until the user leaves."""

    def __init__(self, conversation: Conversation, data_dir: Path) -> None:
        self._conversation = conversation
        self._output = conversation.output
        self._commands = Commands(conversation)
        self._read = _read_line if is_dumb() else _session(_history(data_dir, conversation)).prompt

    def run(self) -> None:
        """Chat until `/exit` or Ctrl-D. Errors of a turn are told, and the chat goes on."""
        facts = self._conversation.facts
        self._output.note(f"{facts.name} on {','.join(facts.devices) or facts.compute}")
        if is_dumb():
            self._output.note(INVITATION)
        while True:
            try:
                text = self._read()
            except KeyboardInterrupt:
                terminal.settle()
                self._output.note("Ctrl-D or /exit leaves")
                continue
            except EOFError:
                return
            text = unquoted(text)
            if not text.strip():
                continue
            try:
                if self._commands.takes(text):
                    if not self._commands.run(text):
                        return
                else:
                    self._conversation.ask(text)
            except KeyboardInterrupt:
                terminal.settle()
                self._output.note("(stopped)")
            except GenieXError as exc:
                if _is_full(exc) and self._conversation.messages:
                    exc.hint = "`/clear` forgets the chat and makes room"
                    if self._conversation.facts.runtime != "qairt":
                        exc.hint += "; `--nctx` sets how much"
                tell(exc)


def _is_full(error: GenieXError) -> bool:
    """Whether the chat is longer than the context, here or on a server."""
    if isinstance(error, ServerError):
        return error.code == "context_length_exceeded"
    return isinstance(error, ContextLengthError)


def unquoted(text: str) -> str:
    """The text without the triple quotes around it."""
    stripped = text.strip()
    if stripped.startswith(QUOTES):
        return stripped.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")
    return text


def is_open(text: str) -> bool:
    """Whether a triple quote was begun and not ended."""
    stripped = text.strip()
    return stripped.startswith(QUOTES) and (
        len(stripped) < 2 * len(QUOTES) or not stripped.endswith(QUOTES)
    )


def _read_line() -> str:
    """A turn from a terminal that a line editor cannot draw on. Raises EOFError at the end."""
    lines: list[str] = []
    while not lines or is_open("\n".join(lines)):
        sys.stderr.write("> " if not lines else ". ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        lines.append(line.rstrip("\n"))
    return "\n".join(lines)


def _history(data_dir: Path, conversation: Conversation) -> "History":
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    file = data_dir / "history"
    try:
        make_data_dir(data_dir)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except (StoreError, OSError):
        conversation.output.warn(f"`{file}` cannot be written, this chat's history is not kept")
        return InMemoryHistory()
    return FileHistory(str(file))


def _session(history: "History") -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.formatted_text import FormattedText
    from prompt_toolkit.output import create_output

    def placeholder() -> FormattedText:
        # not on the line that stays behind
        text = "" if get_app().is_done else INVITATION
        return FormattedText([("ansibrightblack", text)])

    # we need no answer about where the cursor is, and terminals without one would be complained of
    os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
    pace = _Pace()
    session: PromptSession[str] = PromptSession(
        "> ",
        multiline=True,
        prompt_continuation=". ",
        placeholder=placeholder,
        history=history,
        key_bindings=_bindings(pace),
        output=create_output(stdout=sys.stderr),
    )
    session.app.key_processor.before_key_press += pace.key_came
    return session


class _Pace:
    """Whether a key came together with the one before it."""

    def __init__(self) -> None:
        self._more = False
        self.at_once = False

    def key_came(self, processor: "KeyProcessor") -> None:
        """Called for each key, before it has its effect."""
        self.at_once = self._more
        self._more = bool(processor.input_queue)


def _bindings(pace: _Pace) -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    def send(event: "KeyPressEvent") -> None:
        if is_open(event.current_buffer.text):
            event.current_buffer.newline(copy_margin=False)
        else:
            event.current_buffer.validate_and_handle()

    def new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.newline(copy_margin=False)

    def line_feed(event: "KeyPressEvent") -> None:
        # Ctrl-J, unless it ends what came at once: then it is an Enter that was typed before the
        # terminal was ours, or a program's line
        ends_a_line = pace.at_once and not event.key_processor.input_queue
        (send if ends_a_line else new_line)(event)

    def interrupt(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    bindings.add("enter")(send)
    bindings.add("escape", "enter")(new_line)
    bindings.add("c-j")(line_feed)
    bindings.add("c-c")(interrupt)
    bindings.add("<sigint>")(interrupt)
    return bindings
