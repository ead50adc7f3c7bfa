"""A folder of prefixes that were evaluated, for whoever loads the same model in the same way.

    <folder>/<kind of load>/<hash of the tokens>.prefix

A kind of load is a hash of what a state depends on. Names never change their meaning, and files
come and go as a whole: any number of processes may share the folder. The least recently used go
first once all files of the folder are larger than allowed.
"""

import hashlib
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from geniex_catalogue.sizes import size_text
from geniex_runtimes.llama_cpp import prefix_file
from geniex_runtimes.llama_cpp.prefix_file import (
    DamagedError,
    Head,
    Snapshot,
    Tokens,
    UnfitError,
)

log = logging.getLogger("geniex.llama_cpp.kept")

ENDING = ".prefix"
# the names of our folders and files, whatever else is in a folder that we were given
_HASH = "[0-9a-f]" * 32
_PRIVATE = 0o700
# snapshots that wait for the disk; more would fill the memory of a server with a slow one
_WAITING = 4
_ABANDONED = 3600.0  # seconds after which a temporary file is nobody's any more


_Job: TypeAlias = tuple[Snapshot, Sequence[Path]]


class KeptPrefixes:
    """The files of one kind of load. `find`, `read` and `keep` belong to one thread."""

    def __init__(self, folder: Path, most: int, facts: Mapping[str, str]) -> None:
        """At most `most` bytes in the whole folder, which is made when something is kept.

        What is more than that there goes at once: the limit may have been another one before.
        """
        text = json.dumps(dict(facts), sort_keys=True)
        self._root = folder
        self._most = most
        self._facts = facts
        self._folder = folder / hashlib.sha256(text.encode()).hexdigest()[:32]
        # by name; None for what cannot be used
        self._heads: dict[str, Head | None] = {}
        self._waiting: queue.Queue[_Job | None] = queue.Queue(_WAITING)
        self._writer: threading.Thread | None = None
        self._told_full = False
        with suppress(OSError):
            self._make_room(0)

    def find(self, prompt: Tokens, worth: Callable[[Head, int], float]) -> Head | None:
        """The file that is worth most by `worth` (head, tokens shared); None where none is."""
        self._look()
        best, found = 0.0, None
        for head in self._heads.values():
            if head is None or not (shared := head.shared(prompt)):
                continue
            if (value := worth(head, shared)) > best:
                best, found = value, head
        return found

    def read(self, head: Head) -> Snapshot | None:
        """What a file has; None, with a line in the log, where there is nothing any more."""
        try:
            kept = prefix_file.read(head)
        except DamagedError as exc:
            self._drop(head.path, f"{exc}")
            return None
        except (OSError, MemoryError) as exc:
            log.debug("`%s` is not read: %s", head.path, exc)
            self._heads.pop(head.path.name, None)
            return None
        with suppress(OSError):
            os.utime(head.path)  # it was used: others go first
        return kept

    def has(self, tokens: Tokens, *, cuts: bool) -> bool:
        """Whether these tokens, or where it `cuts` more than these, are kept; that is then used."""
        self._look()
        for head in self._heads.values():
            if head is None or head.shared(tokens) < len(tokens):
                continue
            if cuts or len(head.tokens) == len(tokens):
                with suppress(OSError):
                    os.utime(head.path)
                return True
        return False

    def common(self, prompt: Tokens) -> int:
        """The most first tokens of a prompt that a file has which goes on differently."""
        heads = [head for head in self._heads.values() if head is not None]
        parts = ((head.shared(prompt), len(head.tokens)) for head in heads)
        return max((shared for shared, count in parts if shared < count), default=0)

    def within(self, tokens: Tokens) -> list[Path]:
        """The files whose tokens these begin with."""
        heads = [head for head in self._heads.values() if head is not None]
        return [head.path for head in heads if head.shared(tokens) == len(head.tokens)]

    def refuse(self, head: Head, why: str) -> None:
        """Use a file no more, though it is whole."""
        log.warning("`%s` is not used: %s", head.path, why)
        self._heads[head.path.name] = None

    def keep(self, kept: Snapshot, instead: Sequence[Path] = ()) -> None:
        """Write a snapshot beside what goes on, unless others wait for the disk already.

        It takes the place of the files `instead`.
        """
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="geniex-kept", daemon=True)
            self._writer.start()
        try:
            self._waiting.put_nowait((kept, instead))
        except queue.Full:
            log.info("a prefix of %d tokens is not kept: the disk is busy", len(kept.tokens))

    def close(self) -> None:
        """Wait for what is being written."""
        if self._writer is not None:
            self._waiting.put(None)
            self._writer.join()
            self._writer = None

    def write(self, kept: Snapshot, instead: Sequence[Path] = ()) -> None:
        """Write a snapshot now; see `keep`. Failing is a warning: no answer depends on it."""
        size = len(kept.state) + 4 * len(kept.tokens)
        if size > self._most:
            log.warning(
                "a prefix of %s is not kept: all files may have %s",
                *(size_text(size), size_text(self._most)),
            )
            return
        name = hashlib.sha256(kept.tokens.tobytes()).hexdigest()[:32] + ENDING
        try:
            for folder in (self._root, self._folder):
                folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            self._make_room(size)
            prefix_file.write(self._folder / name, self._facts, kept)
            log.debug("kept %d tokens, %s, in `%s`", len(kept.tokens), size_text(size), name)
            self._told_full = False
            for path in instead:
                path.unlink(missing_ok=True)
        except OSError as exc:
            level = logging.DEBUG if self._told_full else logging.WARNING
            log.log(level, "a prefix is not kept in `%s`: %s", self._root, exc.strerror or exc)
            self._told_full = True

    def _write_all(self) -> None:
        while (job := self._waiting.get()) is not None:
            self.write(*job)

    def _look(self) -> None:
        """Take notice of files that have come and gone."""
        try:
            names = {entry.name for entry in os.scandir(self._folder)}
        except OSError:
            names = set()
        for gone in self._heads.keys() - names:
            del self._heads[gone]
        for name in names - self._heads.keys():
            if name.endswith(ENDING) and not name.startswith("."):
                self._heads[name] = self._head(self._folder / name)

    def _head(self, path: Path) -> Head | None:
        try:
            head = prefix_file.read_head(path)
            head.check(self._facts)
            return head
        except DamagedError as exc:
            self._drop(path, f"{exc}")
        except (UnfitError, OSError) as exc:
            log.debug("`%s` is not used: %s", path, exc)
        return None

    def _drop(self, path: Path, why: str) -> None:
        log.warning("`%s` is not used, and removed: %s", path, why)
        self._heads[path.name] = None
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Remove what was used least recently, until so many bytes more are within the limit."""
        found: list[tuple[float, int, Path]] = []
        for path in self._root.glob(f"{_HASH}/*"):
            with suppress(OSError):  # another process has removed it meanwhile
                facts = path.stat()
                if path.match(_HASH + ENDING):
                    found.append((facts.st_mtime, facts.st_size, path))
                elif path.name.endswith(".tmp") and time.time() - facts.st_mtime > _ABANDONED:
                    path.unlink(missing_ok=True)
        total = size + sum(bytes_ for _, bytes_, _ in found)
        for _, bytes_, path in sorted(found):
            if total <= self._most:
                return
            with suppress(OSError):  # Windows removes nothing that another process reads
                path.unlink(missing_ok=True)
                total -= bytes_
                log.debug("`%s` has made room", path)
