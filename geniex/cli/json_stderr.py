"""A stderr on which every line is one JSON object, whoever wrote it.

Log lines arrive as objects. What commands, Python itself and other libraries write as text is put
into objects line by line, with the level that their first word names.
"""

import io
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO, cast

LOGGER = "geniex.cli"
_MOST = 64 << 10  # characters of a line that does not end
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# the numbers of `logging`, which every command would have to import for them
_ERROR, _WARNING, _INFO = 40, 30, 20
_LEVELS = {"Error: ": _ERROR, "Warning: ": _WARNING}


class JsonStderr(io.TextIOBase):
    """Wraps a stream. Usable from any thread."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, below: TextIO) -> None:
        self.below = below
        from geniex.cli.stderr_writer import StderrWriter

        if isinstance(below, StderrWriter):
            below.lost_line = _lost_line
        self._begun = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Write the lines that end in the text, each as an object; the rest waits for its end."""
        if text.startswith("Traceback ("):
            self._tell_traceback(text)
            return len(text)
        with self._lock:
            *lines, self._begun = re.split(r"\r?\n|\r", self._begun + text)
            if len(self._begun) > _MOST:
                lines, self._begun = [*lines, self._begun], ""
            for line in lines:
                self._say(line)
        return len(text)

    def put(self, line: str) -> None:
        """Write a line that is an object already."""
        with self._lock:
            self.below.write(f"{line}\n")
            self.below.flush()

    def flush(self) -> None:
        """Flush what is below; a line that has not ended waits on."""
        self.below.flush()

    def finish(self) -> None:
        """Write a last line that does not end."""
        with self._lock:
            line, self._begun = self._begun, ""
            self._say(line)

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def isatty(self) -> bool:
        """No: nothing is drawn into JSON."""
        return False

    def fileno(self) -> int:
        """The descriptor below."""
        return self.below.fileno()

    def _say(self, line: str) -> None:
        from geniex.json_lines import line_of

        line = _STYLE.sub("", line)
        if not line.strip():
            return
        word = next((word for word in _LEVELS if line.startswith(word)), "")
        level = _LEVELS.get(word, _INFO)
        self.put(line_of(level, LOGGER, line.removeprefix(word)))

    def _tell_traceback(self, text: str) -> None:
        """A traceback that was written as one text."""
        from geniex.json_lines import line_of

        self.finish()
        last = text.rstrip().rpartition("\n")[2]
        self.put(line_of(_ERROR, LOGGER, last, traceback=text.rstrip()))


def _lost_line(lines: int) -> str:
    from geniex.json_lines import line_of

    said = f"{lines} lines were lost: nobody took them"
    return line_of(_WARNING, LOGGER, said, lost=lines) + "\n"


class _Wish:
    """Whether stderr is to be JSON: others may put streams of their own in its place meanwhile."""

    json = False


def put_on() -> None:
    """Have stderr be JSON from here on; a second call does nothing."""
    _Wish.json = True
    keep_on()


def keep_on() -> None:
    """Have stderr be JSON where `put_on` said so, whatever stream is there just now."""
    if _Wish.json and sys.stderr is not None and not isinstance(sys.stderr, JsonStderr):
        sys.stderr = cast(TextIO, JsonStderr(sys.stderr))


@contextmanager
def where_wished(environ: Mapping[str, str]) -> Iterator[None]:
    """A run whose stderr is JSON from the start, where the variable says so; as before after it."""
    if environ.get("GENIEX_LOG_FORMAT", "").lower() == "json":
        put_on()
    try:
        yield
    finally:
        if _Wish.json:
            from geniex.cli import log

            log.tear_down()


def take_off() -> bool:
    """Have stderr be as it was before `put_on`; whether it was JSON."""
    was, _Wish.json = _Wish.json, False
    worn = sys.stderr
    if isinstance(worn, JsonStderr):
        worn.finish()
        sys.stderr = worn.below
    return was
