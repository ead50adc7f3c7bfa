"""What was asked and answered, kept in files for who operates the server, where that was asked for.

A file a day (`prompts-2026-11-30.jsonl`, UTC), one JSON object a line, readable by its owner alone.
A file that has grown large is followed by `prompts-2026-11-30.2.jsonl`; the oldest are deleted once
all together take too much. A thread of its own writes: a full disk or a folder that has gone is
told of in the log, and no request notices.
"""

import json
import logging
import os
import re
import stat
import sys
import threading
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from geniex_catalogue.errors import UsageError

_log = logging.getLogger("geniex.server.prompts")

MOST_FILE = 64 << 20  # bytes
MOST_ALL = 1 << 30
MOST_WAITING = 128 << 20
# bytes of a record that waits, beside what came and what was sent
RECORD = 2 << 10
_FAREWELL = 5.0  # seconds that the last records get to be written
_NAME = re.compile(r"prompts-(\d{4}-\d\d-\d\d)(?:\.(\d+))?\.jsonl")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)

# a request's id, status, times and so on; then what came and what was sent, as they were
Record = tuple[Mapping[str, Any], bytes, bytes]


def open_prompt_log(folder: Path) -> "PromptLog":
    """The log in a folder, made for its owner alone. Raises UsageError where that fails."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True, parents=True)
        made = PromptLog(folder)
        try:
            made.check()
        except OSError:
            made.close()
            raise
    except OSError as exc:
        raise UsageError(
            f"`--log-prompts`: cannot write into `{folder}`: {exc.strerror}",
            hint="give a folder of your own",
        ) from exc
    if sys.platform != "win32" and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        _log.warning("others may look into `%s`; its files are for their owner alone", folder)
    return made


class PromptLog:
    """Writes records. All methods may be called from any thread, and `put` never blocks."""

    def __init__(
        self,
        folder: Path,
        *,
        most_file: int = MOST_FILE,
        most_all: int = MOST_ALL,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.folder = folder
        self._most_file = most_file
        self._most_all = most_all
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: deque[Record] = deque()
        self._size = 0
        self._lost = 0
        self._failing = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="geniex-prompts", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Open today's file. Raises OSError."""
        os.close(self._open(self._name()))

    def put(self, facts: Mapping[str, Any], request: bytes, answer: bytes) -> None:
        """Take a record; it is left out where too much waits already."""
        size = RECORD + len(request) + len(answer)
        with self._changed:
            if self._ended or self._size + size > self._most_waiting:
                self._lost += 1
                return
            self._waiting.append((facts, request, answer))
            self._size += size
            self._changed.notify_all()

    def close(self) -> None:
        """Write what waits, as far as that goes soon."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(_FAREWELL)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if not self._waiting:
                    return
                record = self._waiting.popleft()
                self._size -= RECORD + len(record[1]) + len(record[2])
            self._try(record)

    def _try(self, record: Record) -> None:
        """Write a record; what cannot be written is told of once, until it can."""
        try:
            self._write(_line(record))
        except OSError as exc:
            with self._changed:
                self._lost += 1
            if not self._failing:
                _log.warning("prompts are not kept in `%s`: %s", self.folder, exc.strerror or exc)
            self._failing = True
            return
        with self._changed:
            lost, self._lost = self._lost, 0
        self._failing = False
        if lost:
            _log.warning("prompts are kept again; of %d requests they were not", lost)

    def _write(self, line: bytes) -> None:
        name = self._name()
        descriptor = self._open(name)
        try:
            before = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, line)
            except OSError:
                os.ftruncate(descriptor, before)  # no half lines
                raise
        finally:
            os.close(descriptor)
        if before == 0:
            self._delete_oldest(name)

    def _open(self, name: str) -> int:
        return os.open(self.folder / name, _FLAGS | getattr(os, "O_BINARY", 0), 0o600)

    def _name(self) -> str:
        """The file to write into: today's last one, or the next where that is full."""
        today = datetime.now(UTC).date().isoformat()
        count = max((n for day, n, _ in self._files() if day == today), default=1)
        name = _file_name(today, count)
        try:
            full = (self.folder / name).stat().st_size >= self._most_file
        except FileNotFoundError:
            full = False
        return _file_name(today, count + 1) if full else name

    def _files(self) -> list[tuple[str, int, str]]:
        """Our files, the oldest first: their day, their number, their name."""
        found = ((_NAME.fullmatch(name), name) for name in os.listdir(self.folder))  # noqa: PTH208
        return sorted((m[1], int(m[2] or 1), name) for m, name in found if m is not None)

    def _delete_oldest(self, current: str) -> None:
        """Delete the oldest files until all of them together take no more than they may."""
        files = [self.folder / name for _, _, name in self._files()]
        sizes = {file: file.stat().st_size for file in files}
        # the new one will grow
        total = sum(sizes.values()) + self._most_file
        for file in files:
            if total <= self._most_all or file.name == current:
                return
            file.unlink(missing_ok=True)
            total -= sizes[file]
            _log.info("`%s` was deleted, to make room for newer prompts", file.name)


def _file_name(day: str, count: int) -> str:
    return f"prompts-{day}{f'.{count}' if count > 1 else ''}.jsonl"


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _line(record: Record) -> bytes:
    facts, request, answer = record
    found = {**facts, "request": _value(request)}
    if answer.startswith((b"data: ", b"event: ", b": ")):
        found["events"] = [
            _value(line.removeprefix(b"data: "))
            for line in answer.split(b"\n")
            if line.startswith(b"data: ")
        ]
    else:
        found["answer"] = _value(answer)
    return json.dumps(found).encode() + b"\n"


def _value(data: bytes) -> Any:
    """JSON as what it says, anything else as text."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace") or None
