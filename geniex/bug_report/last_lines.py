"""The last warnings and errors of servers, kept in the data folder for a report.

A small file and the one before it, readable by their owner alone. Neither prompts nor answers nor
keys are in log lines. A folder that cannot be written to costs the lines, and nothing else.
"""

import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from geniex.log_lines import TextLines
from geniex_catalogue.regular import read_regular

FILE = "serve.log"
_MOST = 128 << 10  # bytes of one file
_SHOWN = 200  # lines of a report
_OURS = ("geniex", "uvicorn")


class LastLines(RotatingFileHandler):
    """Keeps warnings and errors, as far as that goes."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(
            data_dir / FILE, maxBytes=_MOST, backupCount=1, encoding="utf-8", delay=True
        )
        self.setLevel(logging.WARNING)
        self.setFormatter(TextLines())

    def handleError(self, record: logging.LogRecord) -> None:
        """Leave a line out: stderr has it, and the folder may be there for the next one."""

    def _open(self) -> Any:
        def privately(path: str, flags: int) -> int:
            return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)

        return open(
            self.baseFilename, self.mode, encoding="utf-8", errors="replace", opener=privately
        )


def keep_last_lines(data_dir: Path) -> LastLines:
    """Keep the lines of our loggers from here on, until `drop_last_lines`."""
    handler = LastLines(data_dir)
    for name in _OURS:
        logging.getLogger(name).addHandler(handler)
    return handler


def drop_last_lines(handler: LastLines) -> None:
    """Keep no lines any more."""
    for name in _OURS:
        logging.getLogger(name).removeHandler(handler)
    handler.close()


def read_last_lines(data_dir: Path) -> list[str]:
    """The last lines that were kept; few, and none where there are none."""
    lines: list[str] = []
    for name in (f"{FILE}.1", FILE):
        try:
            text = read_regular(data_dir / name, 2 * _MOST).decode("utf-8", "replace")
        except OSError:
            continue  # no server has warned of anything yet
        lines += text.splitlines()
    return lines[-_SHOWN:]
