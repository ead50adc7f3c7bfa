"""Where log lines go: stderr from the level asked for, nowhere by default; as text or as JSON."""

import logging
import sys
import threading
from types import TracebackType
from typing import Any

from geniex.cli import json_stderr
from geniex.log_format import LogFormat
from geniex.log_lines import formatter

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
_OURS = ("geniex", "geniex_runtimes", "geniex_catalogue", "uvicorn")
_NATIVE = "geniex.llama_cpp.native"  # what llama.cpp itself says, hundreds of things at debug

log = logging.getLogger("geniex.cli")


def set_up(level: str, *, native: bool = True, kind: LogFormat = "text") -> None:
    """Show our own log lines from `level` up; `trace` shows those of every library too.

    Without `native`, what llama.cpp warns of is left out, and only its errors are shown. With the
    kind `json` all that goes to stderr is JSON, what other libraries warn of as well.
    """
    root = logging.getLogger()
    for logger in (root, *map(logging.getLogger, _OURS)):
        for handler in [h for h in logger.handlers if isinstance(h, _StderrHandler)]:
            logger.removeHandler(handler)
    if kind == "json":
        json_stderr.put_on()
    # without a handler of its own, Python would print warnings by itself
    shown_at = _StderrHandler() if level != "none" else logging.NullHandler()
    shown_at.setFormatter(formatter(kind))
    quiet = logging.INFO if level == "debug" else logging.NOTSET
    logging.getLogger(_NATIVE).setLevel(quiet if native else logging.ERROR)
    shown = (root,) if level == "trace" else tuple(map(logging.getLogger, _OURS))
    for logger in shown:
        logger.addHandler(shown_at)
        logger.setLevel(_LEVELS.get(level, logging.CRITICAL))
    if kind == "json":
        _show_others(formatter(kind), shown=level == "trace")


def tear_down() -> None:
    """Have stderr be what it was, after a run in JSON."""
    if json_stderr.take_off():
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
        set_up("none")


def _show_others(lines: logging.Formatter, *, shown: bool) -> None:
    """Show what other libraries and Python itself warn of, which would be text otherwise."""
    if not shown:
        handler = _StderrHandler()
        handler.setFormatter(lines)
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: record.name.partition(".")[0] not in _OURS)
        logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    sys.excepthook = _unforeseen
    threading.excepthook = _unforeseen_in_thread


def _unforeseen(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    log.critical("unexpected %s: %s", kind.__name__, error, exc_info=(kind, error, at))


def _unforeseen_in_thread(given: Any) -> None:
    if given.exc_type is SystemExit:
        return
    where = given.thread.name if given.thread is not None else "a thread"
    found = (given.exc_type, given.exc_value, given.exc_traceback)
    log.critical("unexpected %s in %s", given.exc_type.__name__, where, exc_info=found)


class _StderrHandler(logging.Handler):
    """Our handler, told apart from those of others; it writes to what `sys.stderr` is just now."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. What cannot be written stops nothing."""
        stream = sys.stderr
        if stream is None:
            return
        try:
            line = self.format(record)
        except Exception as exc:  # a fault of who wrote it is a line too
            line = self.format(_faulty(record, exc))
        try:
            if isinstance(stream, json_stderr.JsonStderr):
                stream.put(line)
            else:
                stream.write(f"{line}\n")
                stream.flush()
        except (OSError, ValueError):
            return  # nobody reads it: there is nowhere to say so


def _faulty(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    said = f"the log line at {record.filename}:{record.lineno} is faulty: {error!r}"
    return logging.LogRecord(json_stderr.LOGGER, logging.ERROR, "", 0, "%s", (said,), None)
