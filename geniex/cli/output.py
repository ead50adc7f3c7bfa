"""The one sink: data goes to stdout, everything else to stderr."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

from geniex.cli import json_stderr
from geniex_catalogue.errors import UsageError

if TYPE_CHECKING:
    from geniex_catalogue.model_lock import Holder, OnWait

_CONTROL = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


_ANSWERS = {"": False, "y": True, "yes": True, "n": False, "no": False}


class OutputClosedError(Exception):
    """Raised when who read our output is gone (`geniex list | head -1`); not an error to tell."""


def prepare_streams() -> None:
    """Speak UTF-8 on stdout and stderr whatever the locale; what cannot be said becomes `?`.

    Streams that were closed before we began are occupied, or the next file we open would be one.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")


def discard(stream: TextIO | None) -> None:
    """Point a stream at nothing, so that the flush at exit has nothing to complain about."""
    if stream is None:
        return
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    except (OSError, ValueError):  # a stream without a descriptor has no flush at exit either
        return


def say(text: str) -> None:
    """Write to stderr. What cannot be told (it is closed, its disk is full) stops nothing."""
    json_stderr.keep_on()
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at the stream (or types into it)."""
    return stream is not None and not stream.closed and stream.isatty()


def has_colour(stream: TextIO | None) -> bool:
    """Whether colour is wanted and understood: a terminal, no NO_COLOR, not a dumb one."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and not is_dumb()


def is_dumb() -> bool:
    """Whether the terminal understands no escape sequences."""
    return os.environ.get("TERM") == "dumb"


class DeclinedError(typer.Abort):
    """Raised when the user says no."""


class Output:
    """Where a command writes. `quiet` hides notes and profiles, never data, warnings or errors."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._at_line_start = True

    def data(self, text: str) -> None:
        """Write lines of data. Raises OSError where stdout is closed."""
        self._write(_stdout(), f"{text}\n")

    def json(self, value: Any) -> None:
        """Write one JSON value, sizes as integers and letters as they are."""
        self.data(json.dumps(value, indent=2, ensure_ascii=False))

    def answer(self, text: str) -> None:
        """Write a piece of an answer at once; a terminal is spared its control characters."""
        if text:
            stdout = _stdout()
            self._write(stdout, _printable(text) if is_terminal(stdout) else text)
            self._at_line_start = text.endswith("\n")

    def end_answer(self) -> None:
        """End the answer's last line."""
        if not self._at_line_start:
            self.answer("\n")

    def note(self, text: str) -> None:
        """Write a line that is good to know, unless quiet."""
        if not self.quiet:
            say(f"{text}\n")

    def tell(self, text: str) -> None:
        """Write a line that was asked for, beside the data."""
        say(f"{text}\n")

    def clear_screen(self) -> None:
        """Clear the terminal, where there is one that can."""
        if has_colour(sys.stderr):
            say("\x1b[H\x1b[2J")

    def reasoning(self, text: str) -> None:
        """Write a piece of reasoning to stderr, dim where there is colour, unless quiet."""
        if self.quiet or not text:
            return
        if is_terminal(sys.stderr):
            text = _printable(text)
        say(f"\x1b[2m{text}\x1b[0m" if has_colour(sys.stderr) else text)

    def status(self, text: str) -> "Status":
        """A line that shows, on a terminal, that something is going on; used as a context."""
        return Status(text, shown=not self.quiet and has_colour(sys.stderr))

    @contextmanager
    def asking(self, text: str) -> Iterator["Status"]:
        """As `status` while a hub is asked, with a line for each time that it is asked again."""
        # imported here: most commands ask no hub
        from geniex_catalogue.hubs.retelling import told

        with self.status(text) as status, told(lambda line: self.note(one_line(line))):
            yield status

    def warn(self, text: str) -> None:
        """Write a warning line."""
        say(f"Warning: {one_line(text)}\n")

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            raise OutputClosedError from None


def _stdout() -> TextIO:
    if sys.stdout is None:  # started with it closed
        raise OSError(errno.EBADF, "stdout is closed, the output is lost")
    return sys.stdout


class Status:
    """A spinner on stderr; does nothing where nobody looks."""

    def __init__(self, text: str, *, shown: bool) -> None:
        self._spinner: Any = None
        if shown:
            from rich.console import Console

            self._spinner = Console(stderr=True).status(text)

    def update(self, text: str) -> None:
        """Change the text."""
        if self._spinner is not None:
            self._spinner.update(text)

    def stop(self) -> None:
        """Take the line away; nothing happens the second time."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def __enter__(self) -> "Status":
        if self._spinner is not None:
            self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def confirm(question: str, *, default: bool = False) -> None:
    """Ask at the terminal. Raises DeclinedError for a no, UsageError where nobody can be asked."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError(
            "this needs a yes, and there is no terminal to ask at", hint="give `--yes`"
        )
    words = "Y/n" if default else "y/N"
    while (answer := read_line(f"{question} [{words}]").lower()) not in _ANSWERS:
        continue
    if not (_ANSWERS[answer] if answer else default):
        raise DeclinedError


def read_line(question: str) -> str:
    """A line that is typed at the terminal, without the spaces around it.

    Nothing of it goes to stdout, as it would with `input`. Raises DeclinedError where there will be
    none any more (Ctrl-D).
    """
    sys.stderr.write(f"{one_line(question)}: ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise DeclinedError
    return line.strip()


def waiting_for(name: str, output: Output) -> "OnWait":
    """What to say when another process holds a model."""

    def say(holder: "Holder | None") -> None:
        who = str(holder) if holder is not None else "another process"
        output.note(f"waiting for {who}, which holds {name}")

    return say


def one_line(text: str) -> str:
    """The text as one line without control characters."""
    return " ".join(_printable(text).split())


def _printable(text: str) -> str:
    return text.translate(_CONTROL)


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows as columns two spaces apart, the first row being the head."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
